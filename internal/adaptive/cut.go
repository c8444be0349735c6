package adaptive

import (
	"math"
	"slices"

	"tablesweep/internal/key"
	"tablesweep/internal/scan"
)

// mark is a place to cut at.
type mark struct {
	key  string
	near bool // it is there to end a cluster
}

// cut divides the rest of the strand into pieces, the first of which goes on
// with the token. There are fewer where marks fall together.
func (st strand) cut(s scan.Step, p scan.Page, v view, near, far *gauge, pieces int) []scan.Step {
	if near == nil {
		near = far
	}
	if far == nil {
		far = near
	}
	marks, left := st.marks(near, far, pieces)
	st.Since, st.Run = 0, 0
	steps := make([]scan.Step, 1, len(marks)+1)
	for i, m := range marks {
		piece := strand{Left: left[i+1], Spread: st.Spread, From: &m.key, Inside: st.Inside, Letters: st.Letters, Hinted: st.Hinted}
		r := scan.Range{Partition: v.partition, Low: &scan.Bound{Key: m.key}}
		switch {
		case i+1 < len(marks):
			r.High = &scan.Bound{Key: marks[i+1].key, Open: true}
		case v.end != nil:
			r.High = &scan.Bound{Key: *v.end, Open: true}
		}
		steps = append(steps, piece.step(r))
	}
	if len(marks) > 0 {
		st.Stop = &key.Key{Partition: marks[0].key}
		if v.partition != nil {
			st.Stop = &key.Key{Partition: *v.partition, Row: marks[0].key}
		}
	}
	st.Left = left[0]
	steps[0] = st.resume(s, p)
	return steps
}

// marks returns up to pieces-1 places to cut at, in order, and the pages
// believed ahead of each and behind the last.
//
// Mostly the densities near and far agree in scale, and the cuts are even. If
// they don't, the keys come in clusters: near cuts, at a power of the distance
// for nobody knows its scale, are to find the end of this one; far cuts, ever
// wider in key space, are to reach the others.
func (st strand) marks(near, far *gauge, pieces int) ([]mark, []float64) {
	const scales = 8
	var marks []mark
	add := func(g *gauge, pages float64, isNear bool) {
		if k, ok := g.at(pages); ok {
			marks = append(marks, mark{k, isNear})
		}
	}
	if near.total <= scales*st.Left && near.total <= scales*far.total {
		// What is believed is less than what is measured: the density falls, as
		// a power of the distance.
		power := 1.0
		if near.total > 1 && st.Left > 1 {
			power = max(1, math.Log(near.total)/math.Log(st.Left))
		}
		for k := 1; k < pieces; k++ {
			add(near, near.total*math.Pow(float64(k)/float64(pieces), power), false)
		}
	} else {
		farCuts := pieces / 2
		if pieces == 2 && far.total < 3*worthwhile && worthwhile < near.total {
			farCuts = 0
		}
		nearCuts := pieces - 1 - farCuts
		for k := 1; k <= nearCuts; k++ {
			u := float64(k) / float64(nearCuts+1)
			add(near, worthwhile*math.Pow(max(1, near.total/worthwhile), u/2), true)
		}
		for k := 1; k <= farCuts; k++ {
			u := float64(k) / float64(farCuts+1)
			add(far, far.total*u*u, false)
		}
	}
	slices.SortFunc(marks, func(a, b mark) int { return key.Compare(a.key, b.key) })
	marks = slices.CompactFunc(marks, func(a, b mark) bool { return a.key == b.key })
	return marks, st.divide(marks)
}

// divide spreads the belief over the pieces between marks: half of it over those
// that end with a near one, half over the others.
func (st strand) divide(marks []mark) []float64 {
	nears := 0
	for _, m := range marks {
		if m.near {
			nears++
		}
	}
	left := make([]float64, len(marks)+1)
	for i := range left {
		switch {
		case nears == 0:
			left[i] = st.Left / float64(len(left))
		case i < len(marks) && marks[i].near:
			left[i] = st.Left / 2 / float64(nears)
		default:
			left[i] = st.Left / 2 / float64(len(left)-nears)
		}
	}
	return left
}
