package sweep

import (
	"context"
	"slices"

	"tablesweep/internal/action"
	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

// Kind is the kind of a difference between the source and the destination.
type Kind string

// The kinds of differences.
const (
	Missing   Kind = "missing"   // only the source has the row
	Extra     Kind = "extra"     // only the destination has the row
	Different Kind = "different" // both have the row, with different content
)

// Difference is a row that differs between the source and the destination.
type Difference struct {
	Kind   Kind    `json:"kind"`
	Key    key.Key `json:"key"`
	Detail string  `json:"detail,omitempty"` // which properties differ, and how; "" unless Different
}

// Comparison is work with the rows of two tables, which [Spec.Source] treats as a single table. Its method Split returns rows of the source.
type Comparison interface {
	action.Work
	// Compare returns how many of a page's rows are in the source, and all differences
	// on the page.
	Compare(rows []storage.Row) (ofSource int64, found []Difference)
}

// Compare counts the differences between two tables, and carries out the comparison's units of work. It returns at most Options.List differences:
// the first ones in table order, sorted. If there is an error, it returns the differences found so far.
func Compare(ctx context.Context, s Spec, o Options, c Comparison) (Totals, []Difference, error) {
	r := newRun(s, o, c, false)
	r.state.comparison, r.state.consumes = c, true // after a sync has changed a row, later queries do not find a difference in the row
	totals, err := r.do(ctx)
	return totals, r.state.differences.first(), err
}

// differences holds the first differences in table order. It collects up to twice as many differences as requested, and only then sorts them.
type differences struct {
	most  int
	all   []Difference
	bound *key.Key // differences after this key are not needed; nil while the bound is unknown
}

// add adds the given differences, and returns those that it keeps.
func (d *differences) add(found []Difference) (kept []Difference) {
	for _, one := range found {
		if d.most <= 0 || d.bound != nil && d.bound.Compare(one.Key) < 0 {
			continue
		}
		one.Key = one.Key.Clone() // without the copy, the key would keep its page in memory
		kept = append(kept, one)
		if d.all = append(d.all, one); len(d.all) >= 2*d.most {
			last := d.first()[d.most-1].Key
			d.bound = &last
		}
	}
	return kept
}

// first returns the first differences in table order, and drops the others.
func (d *differences) first() []Difference {
	slices.SortFunc(d.all, func(a, b Difference) int { return a.Key.Compare(b.Key) })
	d.all = d.all[:min(len(d.all), max(0, d.most))]
	return d.all
}
