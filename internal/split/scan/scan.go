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
	"sort"

	"tablesweep/internal/key"
)

// MaxChildren is the largest number of children that one step may have.
const MaxChildren = 12

// Step is one query of a scan, and the message that asks for it.
type Step struct {
	Range key.Range  `json:"range"`
	Token *key.Token `json:"token,omitempty"`
	// Page counts the pages read with this range before this one. It keeps a
	// step apart from its continuation even if the service repeats a token.
	Page int `json:"page,omitempty"`
	// State belongs to the strategy that made the step.
	State json.RawMessage `json:"state,omitempty"`
}

// Continue returns the step that reads on behind the page with the token.
func (s Step) Continue(token key.Token) Step {
	s.Token = &token
	s.Page++
	return s
}

// BehindPartition returns the step that reads on behind a partition, whatever rows that still has.
func (s Step) BehindPartition(partition string) Step {
	return Step{Range: key.Range{Low: &key.Bound{Key: partition, Open: true}, High: s.Range.High}}
}

// Page is what a strategy learns of a query's answer.
type Page struct {
	Keys []key.Key  // the rows' keys, in table order; may be empty
	Next *key.Token // nil when the step's range is exhausted
}

// Last returns the key of the page's last row. The page must not be empty.
func (p Page) Last() key.Key { return p.Keys[len(p.Keys)-1] }

// Partitions returns the partitions of the page's keys, each once, as keys without row keys.
func (p Page) Partitions() []key.Key {
	var partitions []key.Key
	for _, k := range p.Keys {
		if n := len(partitions); n == 0 || partitions[n-1].Partition != k.Partition {
			partitions = append(partitions, key.Key{Partition: k.Partition})
		}
	}
	return partitions
}

// Before returns how many of the page's keys, from the first on, stand ahead of a key; all if that is nil.
func (p Page) Before(end *key.Key) int {
	if end == nil {
		return len(p.Keys)
	}
	return sort.Search(len(p.Keys), func(i int) bool { return p.Keys[i].Compare(*end) >= 0 })
}

// Decision is what a strategy makes of a page.
type Decision struct {
	// Yield is the number of the page's rows, from its first on, that this
	// step yields. The others belong to its children, or to steps made earlier.
	Yield    int
	Children []Step // in table order
}

// Strategy splits a scan. Its methods are pure functions and may be called
// concurrently.
type Strategy interface {
	// Start returns the scan's first step.
	Start(key.Bounds) Step
	// Advance decides what becomes of a step's page. It fails only for a step
	// that this strategy did not make.
	Advance(Step, Page) (Decision, error)
}

// Serial is the strategy that reads the range page after page, one child a
// step. It makes the fewest queries and knows no parallelism.
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
