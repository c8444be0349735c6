// Package scan decides how a scan of a table is split into steps.
//
// A scan reads every row of a key range. It runs as a tree of steps. A step is one message and one table query. After the query, a [Strategy] decides
// which rows the step yields, and which child steps cover the unread rest. A strategy is a pure function: it uses no clock, no network and no other
// step. The caller may run steps in any order, on any machine. The app uses queue messages, and the command line uses goroutines.
//
// These rules hold for every strategy, even if the service returns short pages:
//
//   - every row of the range is yielded exactly once;
//   - a step has at most [MaxChildren] children, listed in table order;
//   - only a continuation token shows that there are more rows, because even a
//     short or empty page may have a token;
//   - bounds are compared in the service's order (package key), and no
//     surrogate pair is cut.
//
// [Serial] reads page after page. [Prefix] is Joel Verhagen's prefix scan.
package scan

import (
	"encoding/json"
	"sort"

	"tablesweep/internal/key"
)

// MaxChildren is the largest number of children that one step may have.
const MaxChildren = 12

// Step is one query of a scan, and the message that triggers it.
type Step struct {
	Range key.Range  `json:"range"`
	Token *key.Token `json:"token,omitempty"`
	// Page is the number of pages read with this range before this step. It distinguishes a step from its continuation even if the service repeats a
	// token.
	Page int `json:"page,omitempty"`
	// State is the state of the strategy that made the step. Only that strategy can read it.
	State json.RawMessage `json:"state,omitempty"`
}

// Continue returns the step that uses the token to continue after the page.
func (s Step) Continue(token key.Token) Step {
	s.Token = &token
	s.Page++
	return s
}

// AfterPartition returns a step that begins after a partition, so the partition's unread rows are skipped.
func (s Step) AfterPartition(partition string) Step {
	return Step{Range: key.Range{Low: &key.Bound{Key: partition, Open: true}, High: s.Range.High}}
}

// Page is the part of a query's answer that a strategy uses.
type Page struct {
	Keys []key.Key  // the rows' keys, in table order; may be empty
	Next *key.Token // the continuation token; nil at the end of the step's range
}

// Last returns the key of the page's last row. The page must not be empty.
func (p Page) Last() key.Key { return p.Keys[len(p.Keys)-1] }

// Partitions returns the different partition keys of the page, as keys without row keys.
func (p Page) Partitions() []key.Key {
	var partitions []key.Key
	for _, k := range p.Keys {
		if n := len(partitions); n == 0 || partitions[n-1].Partition != k.Partition {
			partitions = append(partitions, key.Key{Partition: k.Partition})
		}
	}
	return partitions
}

// CountBefore returns how many keys of the page come before the end. If `end` is nil, it returns the number of all keys.
func (p Page) CountBefore(end *key.Key) int {
	if end == nil {
		return len(p.Keys)
	}
	return sort.Search(len(p.Keys), func(i int) bool { return p.Keys[i].Compare(*end) >= 0 })
}

// Decision is a strategy's result for a page.
type Decision struct {
	// Yield is the number of leading rows of the page that this step yields. The other rows belong to other steps.
	Yield    int
	Children []Step // in table order
}

// Strategy splits a scan. Its methods are pure functions and may be called
// concurrently.
type Strategy interface {
	// Start returns the scan's first step.
	Start(key.Bounds) Step
	// Advance decides which rows of its page a step yields, and makes the step's children. It fails only if another strategy made the step.
	Advance(Step, Page) (Decision, error)
}

// Serial is the strategy that reads the range page after page, with one child per step. It makes the fewest queries and has no
// parallelism.
type Serial struct{}

// Start implements [Strategy].
func (Serial) Start(b key.Bounds) Step { return Step{Range: b.Range()} }

// Advance implements [Strategy].
func (Serial) Advance(s Step, p Page) (Decision, error) {
	o := Decision{Yield: len(p.Keys)}
	if p.Next != nil {
		o.Children = []Step{s.Continue(*p.Next)}
	}
	return o, nil
}
