package adaptive

import (
	"cmp"
	"encoding/json"
	"fmt"

	"tablesweep/internal/key"
	"tablesweep/internal/split/scan"
)

const (
	firstCredit  = 60.0 // cuts that a scan may make before its pages have earned any
	perPiece     = 1.5  // pages believed ahead for each piece but the first
	hintCaution  = 6.0  // how much more pages it takes, ahead and to earn a cut, where hints said where to cut
	longStreak   = 2    // pages within one partition that make it a long one
	maxPages     = 20_000
	leastBelief  = 0.1 // pages that are believed left of any strand that has more to read
	unknownPages = 300 // believed left before the first page
)

// Strategy splits a scan by what its pages tell. Its zero value is ready to use.
type Strategy struct {
	// Hints, if set, are where an earlier scan with the same bounds found the
	// rows. They may be out of date. All steps of a scan need the same ones.
	Hints *scan.Hints
	// PageRows is how many rows a full page has, by which hints count; 0 means that each page is a full one.
	PageRows int
	// Partitions steps over the rows behind a page's last partition: all partition keys are met, which is what listing them
	// takes. It takes no hints.
	Partitions bool
}

// Start implements [scan.Strategy].
func (x Strategy) Start(b key.Bounds) scan.Step {
	if pieces := x.Hints.Pieces(b); len(pieces) > 1 {
		return hintStep(x.Hints, pieces, group{First: 1, End: len(pieces), Sum: x.Hints.Sum()}, 0)
	}
	return strand{First: true, Left: unknownPages, Credit: firstCredit, Partitions: x.Partitions}.step(b.Range())
}

// Advance implements [scan.Strategy].
func (x Strategy) Advance(s scan.Step, p scan.Page) (scan.Decision, error) {
	var st strand
	if err := json.Unmarshal(s.State, &st); err != nil {
		return scan.Decision{}, fmt.Errorf("adaptive step has no valid state: %w", err)
	}
	o := scan.Decision{Yield: p.Before(st.Stop)}
	more := p.Next != nil && o.Yield == len(p.Keys)
	if st.Hinted && more && len(p.Keys) > 0 {
		st.Due -= float64(len(p.Keys)) / float64(cmp.Or(x.PageRows, len(p.Keys)))
	}
	switch {
	case st.Group != nil:
		return x.launch(s, st, p, more, o)
	case more && len(p.Keys) == 0: // nothing learned
		o.Children = []scan.Step{s.Continue(*p.Next)}
	case more:
		if st.Partitions {
			p.Keys = p.Partitions()
		}
		o.Children = st.advance(s, p)
	}
	return o, nil
}

// advance decides what becomes of the rest of a strand after a page that is not
// its last.
func (st strand) advance(s scan.Step, p scan.Page) []scan.Step {
	st.Credit += 1 / st.caution()
	v := st.view(s, p)
	g := st.survey(s, v)
	if v.partition != nil || st.Partitions || !st.goesOn(p) {
		return st.cut(s, p, v, g, st.worth(g))
	}
	// A partition that goes on becomes a strand of its own, before the rest.
	rest, outer := st.leave(s, p)
	v = st.view(s, p)
	inner := st.survey(s, v)
	if outer.Empty() {
		return st.cut(s, p, v, inner, st.worth(inner))
	}
	in, out := st.worth(inner), rest.worth(g)
	for in+out > scan.MaxChildren {
		if in > out {
			in--
		} else {
			out--
		}
	}
	return append(st.cut(s, p, v, inner, in), rest.open(outer, g, out)...)
}

// worth returns the number of pieces that the rest is worth, as far as the strand has credit for cuts.
func (st strand) worth(g *gauge) int {
	if st.First { // where a table starts tells little of the rest
		return scan.MaxChildren
	}
	return int(min(scan.MaxChildren, 1+st.Credit, 1+g.total/(perPiece*st.caution())))
}

// caution is what a cut costs more where hints told to cut.
func (st strand) caution() float64 {
	if st.Hinted {
		return hintCaution
	}
	return 1
}
