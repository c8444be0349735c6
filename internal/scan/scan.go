// Package scan decides how a scan of a table is split into steps.
//
// A scan reads every row of a key range. It runs as a tree of steps: one step is
// one message and one table query, and it ends by naming the rows it yields and
// the child steps that cover whatever it has not read. A [Strategy] is the pure
// function that makes this decision; it sees no clock, no network and no other
// step. Whoever drives it (queue messages in the cloud, a worker pool in the
// command line) may run steps in any order, on any machine.
//
// What holds for every strategy, whatever the page sizes and however often the
// service cuts a page short:
//
//   - every row of the range is yielded exactly once;
//   - a step has at most [MaxChildren] children, listed in table order;
//   - only a continuation token means that there is more: a page may be short
//     or empty and carry one;
//   - bounds are compared in the service's order (package key), and no
//     surrogate pair is cut.
//
// [Serial] reads page after page. [Prefix] is the published prefix scan.
package scan

import (
	"encoding/json"

	"tablesweep/internal/key"
)

// MaxChildren is the largest number of children that one step may have.
const MaxChildren = 4

// Bound is one end of a [Range].
type Bound struct {
	Key  string `json:"k"`
	Open bool   `json:"o,omitempty"` // the key itself lies outside
}

// Range is a set of rows between two bounds: of partition keys or, where
// Partition is set, of the row keys of that one partition. A missing bound is
// no bound. The service answers both forms from its index.
type Range struct {
	Partition *string `json:"p,omitempty"`
	Low       *Bound  `json:"l,omitempty"`
	High      *Bound  `json:"h,omitempty"`
}

// Contains reports whether the row lies in the range.
func (r Range) Contains(k key.Key) bool {
	v := k.Partition
	if r.Partition != nil {
		if k.Partition != *r.Partition {
			return false
		}
		v = k.Row
	}
	if r.Low != nil {
		if c := key.Compare(v, r.Low.Key); c < 0 || c == 0 && r.Low.Open {
			return false
		}
	}
	if r.High != nil {
		if c := key.Compare(v, r.High.Key); c > 0 || c == 0 && r.High.Open {
			return false
		}
	}
	return true
}

// Empty reports whether the bounds leave no key between them. It may report
// false for a range that no well-formed key falls into; such a range costs one
// query and yields nothing.
func (r Range) Empty() bool {
	if r.Low == nil || r.High == nil {
		return false
	}
	c := key.Compare(r.Low.Key, r.High.Key)
	return c > 0 || c == 0 && (r.Low.Open || r.High.Open)
}

// intersect narrows r to the partition keys that also lie between the bounds.
// r must be a range of partition keys.
func (r Range) intersect(low, high *Bound) Range {
	if r.Low == nil || low != nil && tighterLow(*low, *r.Low) {
		r.Low = low
	}
	if r.High == nil || high != nil && tighterHigh(*high, *r.High) {
		r.High = high
	}
	return r
}

func tighterLow(a, b Bound) bool {
	c := key.Compare(a.Key, b.Key)
	return c > 0 || c == 0 && a.Open
}

func tighterHigh(a, b Bound) bool {
	c := key.Compare(a.Key, b.Key)
	return c < 0 || c == 0 && a.Open
}

// Token is the service's continuation token. It is opaque, and it belongs to
// the query that returned it: a step that carries one has the same range as the
// step before it.
type Token struct {
	Partition string `json:"p"`
	Row       string `json:"r,omitempty"` // the service may leave it out
}

// Step is one query of a scan, and the message that asks for it.
type Step struct {
	Range Range  `json:"range"`
	Token *Token `json:"token,omitempty"`
	// Page counts the pages read with this range before this one. It keeps a
	// step apart from its continuation even if the service repeats a token.
	Page int `json:"page,omitempty"`
	// State belongs to the strategy that made the step.
	State json.RawMessage `json:"state,omitempty"`
}

// Continue returns the step that reads on behind the page with the token.
func (s Step) Continue(token Token) Step {
	s.Token = &token
	s.Page++
	return s
}

// Page is what a strategy learns of a query's answer.
type Page struct {
	Keys []key.Key // the rows' keys, in table order; may be empty
	Next *Token    // nil when the step's range is exhausted
}

// Last returns the key of the page's last row. The page must not be empty.
func (p Page) Last() key.Key { return p.Keys[len(p.Keys)-1] }

// Outcome is what a strategy makes of a page.
type Outcome struct {
	// Yield is the number of the page's rows, from its first on, that this
	// step yields. The others belong to its children, or to steps made earlier.
	Yield    int
	Children []Step // in table order
}

// Strategy splits a scan. Its methods are pure functions and may be called
// concurrently.
type Strategy interface {
	// Start returns the scan's first step.
	Start(Bounds) Step
	// Advance decides what becomes of a step's page. It fails only for a step
	// that this strategy did not make.
	Advance(Step, Page) (Outcome, error)
}

// Bounds limit a scan by partition key. Empty fields do not limit.
type Bounds struct {
	Prefix string `json:"prefix,omitempty"` // only partitions starting with it, the one equal to it included
	After  string `json:"after,omitempty"`  // only partitions behind it, itself excluded
	Before string `json:"before,omitempty"` // only partitions ahead of it, itself excluded
}

// Range returns the partition keys that lie within the bounds.
func (b Bounds) Range() Range {
	r := prefixRange(b.Prefix)
	var low, high *Bound
	if b.After != "" {
		low = &Bound{Key: b.After, Open: true}
	}
	if b.Before != "" {
		high = &Bound{Key: b.Before, Open: true}
	}
	return r.intersect(low, high)
}

// prefixRange returns the range of all keys starting with prefix.
func prefixRange(prefix string) Range {
	var r Range
	if prefix != "" {
		r.Low = &Bound{Key: prefix}
		r.High = upper(prefix)
	}
	return r
}

// upper returns the bound below which a key may start with prefix, nil if every
// key behind the prefix starts with it.
func upper(prefix string) *Bound {
	if next, ok := key.Successor(prefix); ok {
		return &Bound{Key: next, Open: true}
	}
	return nil
}

// WithPrefix returns the range of a partition's rows whose keys start with prefix.
func WithPrefix(partition, prefix string) Range {
	return Range{Partition: &partition, Low: &Bound{Key: prefix}, High: upper(prefix)}
}

// Serial is the strategy that reads the range page after page, one child a
// step. It makes the fewest queries and knows no parallelism.
type Serial struct{}

// Start implements [Strategy].
func (Serial) Start(b Bounds) Step { return Step{Range: b.Range()} }

// Advance implements [Strategy].
func (Serial) Advance(s Step, p Page) (Outcome, error) {
	o := Outcome{Yield: len(p.Keys)}
	if p.Next != nil {
		o.Children = []Step{s.Continue(*p.Next)}
	}
	return o, nil
}
