package adaptive

import (
	"fmt"

	"tablesweep/internal/key"
	"tablesweep/internal/split/scan"
)

// group is a range of pieces that a step must still start. Hints divide a scan into numbered pieces, but a message has no room for the
// hints. The checksum ensures that every step uses the same hints.
type group struct {
	First int     `json:"first"`
	End   int     `json:"end"`
	Sum   uint64  `json:"sum"`
	Due   float64 `json:"due"` // pages in these pieces, according to the hints
}

// hintStep returns the step that reads pieces[piece]. This step also starts steps for the pieces in the group g. In a large group, these steps start the
// steps of the other pieces.
func hintStep(h *scan.Hints, pieces []key.Range, g group, piece int) scan.Step {
	st := strand{Left: scan.HintPages, Hinted: true, Due: h.Due(piece), Share: rounded(h.Share)}
	if g.First < g.End {
		for i := g.First; i < g.End; i++ {
			g.Due = rounded(g.Due + h.Due(i))
		}
		st.Group = &g
	}
	return st.step(pieces[piece])
}

// launch divides the group of the step s into parts, and adds one child per part to the decision o. If `more` is true, launch also adds a child for the
// rest of the step's own piece.
func (x Strategy) launch(s scan.Step, st strand, p scan.Page, more bool, o scan.Decision) (scan.Decision, error) {
	g := *st.Group
	if x.Hints == nil || x.Hints.Sum() != g.Sum {
		return scan.Decision{}, fmt.Errorf("the step needs the hints with the checksum %d, but this process does not have them", g.Sum)
	}
	groups := scan.MaxChildren
	if more {
		groups--
		st.Group = nil
		o.Children = append(o.Children, st.continueAfter(s, p))
	}
	pieces := x.Hints.Pieces(x.Hints.Bounds)
	for ; groups > 0 && g.First < g.End; groups-- {
		end := g.First + (g.End-g.First+groups-1)/groups
		o.Children = append(o.Children, hintStep(x.Hints, pieces, group{First: g.First + 1, End: end, Sum: g.Sum}, g.First))
		g.First = end
	}
	return o, nil
}
