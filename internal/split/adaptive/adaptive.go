package adaptive

import (
	"cmp"
	"encoding/json"
	"fmt"

	"tablesweep/internal/key"
	"tablesweep/internal/split/scan"
)

const (
	firstCredit  = 60.0 // the number of cuts that a scan may make before its pages have earned credit
	perPiece     = 1.5  // the number of pages that each piece except the first should have
	hintCaution  = 6.0  // makes cuts rarer in a piece between hints: it divides the credit that a page earns, and multiplies perPiece
	longStreak   = 2    // a partition is long if it fills this number of pages
	maxPages     = 20_000
	leastBelief  = 0.1 // the minimum for an estimate of the unread pages in a piece
	unknownPages = 300 // the number of pages that is assumed before the first page is read
)

// Strategy splits a scan according to the keys on its pages. The zero value is ready to use.
type Strategy struct {
	// Hints, if set, describe where an earlier scan with the same bounds found the rows. The table may have changed since. All steps of a scan need
	// the same hints.
	Hints *scan.Hints
	// PageRows is the number of rows in a full page. Hints count full pages. If PageRows is 0, every page counts as full.
	PageRows int
	// If Partitions is set, the strategy lists partition keys. After each page, it skips the unread rows of the page's last partition, but still
	// finds all partition keys. It uses no hints.
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
		return scan.Decision{}, fmt.Errorf("the adaptive step has no valid state: %w", err)
	}
	o := scan.Decision{Yield: p.CountBefore(st.Stop)}
	more := p.Next != nil && o.Yield == len(p.Keys)
	if st.Hinted && more && len(p.Keys) > 0 {
		st.Due -= float64(len(p.Keys)) / float64(cmp.Or(x.PageRows, len(p.Keys)))
	}
	switch {
	case st.Group != nil:
		return x.launch(s, st, p, more, o)
	case more && len(p.Keys) == 0: // an empty page shows nothing about the keys
		o.Children = []scan.Step{s.Continue(*p.Next)}
	case more:
		if st.Partitions {
			p.Keys = p.Partitions()
		}
		o.Children = st.advance(s, p)
	}
	return o, nil
}

// advance returns the children of a step whose piece has further pages.
func (st strand) advance(s scan.Step, p scan.Page) []scan.Step {
	st.Credit += 1 / st.caution()
	v := st.view(s, p)
	g := st.survey(s, v)
	if v.partition != nil || st.Partitions || !st.endsInLong(p) {
		return st.cut(s, p, v, g, st.pieceCount(g))
	}
	// The last partition of the page is several pages long. The rest of this partition is cut separately from the later partitions.
	rest, outer := st.stopAfterPartition(s, p)
	v = st.view(s, p)
	inner := st.survey(s, v)
	if outer.Empty() {
		return st.cut(s, p, v, inner, st.pieceCount(inner))
	}
	in, out := st.pieceCount(inner), rest.pieceCount(g)
	for in+out > scan.MaxChildren {
		if in > out {
			in--
		} else {
			out--
		}
	}
	return append(st.cut(s, p, v, inner, in), rest.openRange(outer, g, out)...)
}

// pieceCount returns the number of pieces into which to divide the unread keys. The credit for cuts limits this number.
func (st strand) pieceCount(g *gauge) int {
	if st.First { // the start of a table reveals little about the rest
		return scan.MaxChildren
	}
	return int(min(scan.MaxChildren, 1+st.Credit, 1+g.total/(perPiece*st.caution())))
}

// caution returns the factor that makes cuts rarer: hintCaution in a piece between hints, and 1 in any other piece.
func (st strand) caution() float64 {
	if st.Hinted {
		return hintCaution
	}
	return 1
}
