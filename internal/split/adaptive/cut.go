package adaptive

import (
	"math"

	"tablesweep/internal/key"
	"tablesweep/internal/split/scan"
)

// cut divides the unread keys into the given number of pieces, or into fewer if some cuts are the same key. The first piece continues
// the query with the page's token.
func (st strand) cut(s scan.Step, p scan.Page, v view, g *gauge, pieces int) []scan.Step {
	cuts := g.cuts(pieces)
	st.divide(g, cuts)
	others := st.pieces(v.partition, cuts, v.end)
	if len(cuts) > 0 {
		st.Stop = &key.Key{Partition: cuts[0]}
		if v.partition != nil {
			st.Stop = &key.Key{Partition: *v.partition, Row: cuts[0]}
		}
	}
	return append([]scan.Step{st.continueAfter(s, p)}, others...)
}

// openRange divides a range of partitions that lies after the last key read.
func (st strand) openRange(r key.Range, g *gauge, pieces int) []scan.Step {
	cuts := g.cuts(pieces)
	st.divide(g, cuts)
	others := st.pieces(nil, cuts, g.end)
	if len(cuts) > 0 {
		r.High = &key.Bound{Key: cuts[0], Open: true}
	}
	return append([]scan.Step{st.step(r)}, others...)
}

// divide changes st from the state of a whole strand to the state of the strand's first piece. Each cut costs a credit of 1. Each piece gets an equal
// part of the remaining credit. Pieces that do not lie between hints get credit for at least one cut. The number of expected pages becomes the
// geometric mean of the old and the new estimate. Each piece expects an equal part of these pages. After a cut in a level without known siblings (see
// [trail]), the new piece is often empty, but the other pieces do not learn this. So if the first cut is in such a level, all pieces expect fewer
// pages in levels without known siblings.
func (st *strand) divide(g *gauge, cuts []string) {
	n := float64(len(cuts))
	st.First = false
	st.Left = math.Sqrt(max(st.Left-1, leastBelief)*min(max(g.total, leastBelief), maxPages)) / (n + 1)
	if n == 0 {
		return
	}
	st.Streak = 0
	st.Due /= n + 1
	st.Credit = (st.Credit - n) / (n + 1)
	if !st.Hinted {
		st.Credit = max(st.leastCredit(), st.Credit)
	}
	if depth := commonPrefix([]rune(cuts[0]), g.here); !st.Trail.isMeasured(depth) {
		st.Trail.Tries++
	}
}

// leastCredit returns the number of cuts that a piece may make without earned credit: one cut, or up to five cuts if the piece is expected to be
// long. A long piece may make several cuts, because it delays the whole scan, and has seldom earned enough credit for them. If the piece lies in
// one partition and fewer than twelve pages are expected, the result is 1. If Tries in the piece's [trail] is not 0, the result is also 1. Tries
// counts divisions whose first cut was in a level without known siblings, and such cuts often make empty pieces.
func (st strand) leastCredit() float64 {
	const most, long, longPartition = 5, 4.0, 12.0 // most is a number of cuts; long and longPartition are numbers of pages
	if st.Trail.Tries > 0 || st.Inside && st.Left < longPartition {
		return 1
	}
	return 1 + (most-1)*min(1, st.Left/long)
}

// pieces returns the first steps of the pieces that start at the cuts.
func (st strand) pieces(partition *string, cuts []string, end *string) []scan.Step {
	var steps []scan.Step
	for i := range cuts {
		piece := strand{
			Left: st.Left, Credit: st.Credit, Inside: st.Inside, Trail: st.Trail.inherit(cuts[i]), Forks: st.Forks, Letters: st.Letters,
			Hinted: st.Hinted, Due: st.Due, Share: st.Share, Partitions: st.Partitions,
		}
		r := key.Range{Partition: partition, Low: &key.Bound{Key: cuts[i]}}
		switch {
		case i+1 < len(cuts):
			r.High = &key.Bound{Key: cuts[i+1], Open: true}
		case end != nil:
			r.High = &key.Bound{Key: *end, Open: true}
		}
		steps = append(steps, piece.step(r))
	}
	return steps
}
