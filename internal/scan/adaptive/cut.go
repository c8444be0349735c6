package adaptive

import (
	"math"

	"tablesweep/internal/key"
	"tablesweep/internal/scan"
)

// cut divides the rest of the strand into pieces, the first of which goes on
// with the token. There are fewer where cuts fall together.
func (st strand) cut(s scan.Step, p scan.Page, v view, g *gauge, pieces int) []scan.Step {
	marks := g.marks(pieces)
	st.divide(g, marks)
	others := st.pieces(v.partition, marks, v.end)
	if len(marks) > 0 {
		st.Stop = &key.Key{Partition: marks[0]}
		if v.partition != nil {
			st.Stop = &key.Key{Partition: *v.partition, Row: marks[0]}
		}
	}
	return append([]scan.Step{st.resume(s, p)}, others...)
}

// open divides a range of partitions, which starts where the strand's trail
// ends and which nobody has begun to read.
func (st strand) open(r key.Range, g *gauge, pieces int) []scan.Step {
	marks := g.marks(pieces)
	st.divide(g, marks)
	others := st.pieces(nil, marks, g.end)
	if len(marks) > 0 {
		r.High = &key.Bound{Key: marks[0], Open: true}
	}
	return append([]scan.Step{st.step(r)}, others...)
}

// divide makes the strand the first of the pieces between the marks: it pays for
// the cuts, and shares the credit evenly, and so what it believes: the mean, of
// the logarithms, of what it believed and what it measures. That its next
// piece turns out empty nobody will tell it. So it notes that it has cut in a
// level where it knows of no siblings, and is slower to do so again.
func (st *strand) divide(g *gauge, marks []string) {
	n := float64(len(marks))
	st.First = false
	st.Left = math.Sqrt(max(st.Left-1, leastBelief)*min(max(g.total, leastBelief), maxPages)) / (n + 1)
	if n == 0 {
		return
	}
	st.Since, st.Run = 0, 0
	st.Credit = (st.Credit - n) / (n + 1)
	if depth := common([]rune(marks[0]), g.here); !st.Trail.knows(depth) {
		st.Trail.Tries++
	}
}

// pieces returns the steps that start at the marks.
func (st strand) pieces(partition *string, marks []string, end *string) []scan.Step {
	var steps []scan.Step
	for i := range marks {
		piece := strand{
			Left: st.Left, Credit: st.Credit, Inside: st.Inside, Trail: st.Trail.inherit(marks[i]), Forks: st.Forks, Letters: st.Letters,
			Hinted: st.Hinted,
		}
		r := key.Range{Partition: partition, Low: &key.Bound{Key: marks[i]}}
		switch {
		case i+1 < len(marks):
			r.High = &key.Bound{Key: marks[i+1], Open: true}
		case end != nil:
			r.High = &key.Bound{Key: *end, Open: true}
		}
		steps = append(steps, piece.step(r))
	}
	return steps
}
