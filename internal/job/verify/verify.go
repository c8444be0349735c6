// Package verify compares two tables row by row, including values and types.
//
// The package sweeps both tables as if they were a single table with the rows of both (pair.go). So it compares ranges in any order, with as many concurrent
// requests as are worthwhile, and a checkpoint records the progress. Memory is bounded, whatever the size of the tables and the number of
// differences.
//
// The sweep reads merged pages. A merged page is made from one page of each table. Its token contains the tokens of both tables and the last merged
// key. So strategies, idle workers and the checkpoint handle two tables like a single table. The journal line of a page counts the page's differences,
// so each difference counts once, however often the process dies. The journal also contains the list of the first differences in key order.
package verify

import (
	"cmp"
	"context"
	"strings"

	"tablesweep/internal/action"
	"tablesweep/internal/job/sweep"
	"tablesweep/internal/storage"
	"tablesweep/internal/task/memory"
)

// Depth defines when two rows count as equal.
type Depth int

// The depths.
const (
	Exact    Depth = iota // the same properties, with the same types and values
	Contains              // the destination's row has at least the source's properties
	Keys                  // the destination has a row with the same key
)

// DepthOf returns the depth of a comparison that verifies a copy in the given mode.
func DepthOf(m action.Mode) Depth {
	switch m {
	case action.Merge:
		return Contains
	case action.Skip, action.Fail:
		return Keys
	}
	return Exact
}

// DefaultList is the default number of listed differences.
const DefaultList = 20

// Options configure a comparison.
type Options struct {
	sweep.Options // if List is 0, at most DefaultList differences are listed
	Depth         Depth
	// AllowExtra makes the comparison ignore rows that only the destination has.
	AllowExtra bool
	// Only is an additional filter, which applies to the source's rows alone. It may be empty. It must not contain "or".
	Only string
	// Plan, if set, receives the rows to sync. In that case, Depth must be Exact, and the comparison cannot be resumed.
	Plan *Plan
}

// Result is the result of a comparison.
type Result struct {
	Rows      int64 `json:"rows"` // rows of the source
	Missing   int64 `json:"missing"`
	Extra     int64 `json:"extra"`
	Different int64 `json:"different"`
	Queries   int64 `json:"queries"`  // queries of both tables
	Requests  int64 `json:"requests"` // requests, including retries

	// List contains the first differences in table order.
	List []sweep.Difference `json:"-"`
}

// Differences returns how many rows differ.
func (r Result) Differences() int64 { return r.Missing + r.Extra + r.Different }

// Compare compares the rows of a scan with the destination's rows within the same bounds. If there is an error, the result contains the counts and
// differences found so far.
func Compare(ctx context.Context, s sweep.Spec, destination storage.Source, o Options) (Result, error) {
	o.List = cmp.Or(o.List, DefaultList)
	if o.Memory == nil {
		o.Memory = memory.NewBudget(memory.Command)
	}
	p := newPair(s.Source, destination, o, func() int64 { return o.Room() / 2 })
	p.limit, o.Beside = o.Others(), p.heldBytes
	s.Source = p
	t, list, err := sweep.Compare(ctx, s, o.Options, comparison{p.places, s.Filter, o.AllowExtra, o.Plan})
	if err == nil && o.Plan != nil {
		err = o.Plan.finish()
	}
	return Result{t.Rows, t.Missing, t.Extra, t.Different, t.Queries, t.Requests, list}, err
}

// comparison is the work that a sweep does with the rows of a pair.
type comparison struct {
	places     [2]storage.Source // source and destination
	filter     string
	allowExtra bool
	plan       *Plan // collects the rows to sync; nil for none
}

// Compare implements [sweep.Comparison].
func (c comparison) Compare(rows []storage.Row) (ofSource int64, found []sweep.Difference) {
	return Differences(rows, c.allowExtra)
}

// Differences counts the rows that are in the source, and lists the differences. The rows must come from a [pair]. If `allowExtra` is true, extra
// rows do not count as differences.
func Differences(rows []storage.Row, allowExtra bool) (ofSource int64, found []sweep.Difference) {
	for _, row := range rows {
		v := verdictOf(row)
		if v.kind != sweep.Extra {
			ofSource++
		}
		if v.kind != "" && !(allowExtra && v.kind == sweep.Extra) {
			found = append(found, sweep.Difference{Kind: v.kind, Key: row.Key, Detail: v.detail})
		}
	}
	return ofSource, found
}

// verdict describes how a row differs between the two places. It is stored in the row's note. A row that is equal in both places has no note.
type verdict struct {
	kind   sweep.Kind
	detail string
}

func (v verdict) of(row storage.Row) storage.Row {
	row.Note = string(v.kind) + "\n" + v.detail
	return row
}

func verdictOf(row storage.Row) verdict {
	kind, detail, _ := strings.Cut(row.Note, "\n")
	return verdict{sweep.Kind(kind), detail}
}
