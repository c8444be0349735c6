package adaptive

import (
	"encoding/json"
	"fmt"
	"math"
	"sort"

	"tablesweep/internal/key"
	"tablesweep/internal/scan"
)

const (
	worthwhile   = 12.0 // pages that a piece should be believed to have
	patience     = 6    // pages that a strand reads before it is cut against its belief
	patienceLeft = 4.0  // pages that must then still be measured ahead
	longRun      = 12   // pages within one partition that make it a long one
	hintCaution  = 2.5  // how much more of all these it takes where hints said where to cut
	window       = 16   // pages after which the wider measure starts anew

	firstGuess, firstSpread = 300.0, 3.0 // belief before the first page
	runLeft, runSpread      = 2.0, 1.5   // belief in a long partition, per page seen of it
	optimism                = 0.5        // standard deviations that a belief is stretched by
	fading                  = 1.0        // spread that a belief gains with every page
	pieceSpread             = 0.6        // that it gains by a cut
	forcedSpread            = 1.2        // that it gains by one against the belief
)

// Strategy splits a scan by what its pages tell. Its zero value is ready to use.
type Strategy struct {
	// Hints, if set, are where an earlier scan with the same bounds found the
	// rows. They may be out of date. All steps of a scan need the same ones.
	Hints *Hints
}

// strand is the State of a step: what is known of the keys it is to read.
type strand struct {
	// Stop is where the strand ends ahead of its range: the first key that
	// belongs to another step.
	Stop *key.Key `json:"stop,omitempty"`

	Left   float64 `json:"left"`   // pages believed left
	Spread float64 `json:"spread"` // standard deviation of its logarithm

	// The wider measure: all rows behind From have been read, in Pages pages.
	From  *string `json:"from,omitempty"`
	Pages int     `json:"pages,omitempty"`

	First   bool     `json:"first,omitempty"` // nothing has been read yet
	Since   int      `json:"since,omitempty"` // pages read since the last cut
	Run     int      `json:"run,omitempty"`   // the last pages that lay in one partition
	Inside  bool     `json:"in,omitempty"`    // what is left lies in one partition
	Letters alphabet `json:"abc"`

	Hinted bool   `json:"hinted,omitempty"` // it comes from a hint
	Group  *group `json:"group,omitempty"`
}

// Start implements [scan.Strategy].
func (x Strategy) Start(b scan.Bounds) scan.Step {
	if pieces := x.Hints.pieces(b); len(pieces) > 1 {
		return x.Hints.step(pieces, group{1, len(pieces), x.Hints.sum()}, 0)
	}
	return strand{First: true, Left: firstGuess, Spread: firstSpread}.step(b.Range())
}

// Advance implements [scan.Strategy].
func (x Strategy) Advance(s scan.Step, p scan.Page) (scan.Outcome, error) {
	var st strand
	if err := json.Unmarshal(s.State, &st); err != nil {
		return scan.Outcome{}, fmt.Errorf("adaptive step has no valid state: %w", err)
	}
	o := scan.Outcome{Yield: len(p.Keys)}
	if st.Stop != nil {
		o.Yield = sort.Search(len(p.Keys), func(i int) bool { return p.Keys[i].Compare(*st.Stop) >= 0 })
	}
	more := p.Next != nil && o.Yield == len(p.Keys)
	switch {
	case st.Group != nil:
		return x.launch(s, st, p, more, o)
	case more && len(p.Keys) == 0: // nothing learned
		o.Children = []scan.Step{s.Continue(*p.Next)}
	case more:
		o.Children = st.advance(s, p)
	}
	return o, nil
}

// step returns the step that starts to read a range with this state.
func (st strand) step(r scan.Range) scan.Step {
	short := func(f float64) float64 { return math.Round(f*1000) / 1000 }
	st.Left, st.Spread = short(st.Left), short(st.Spread)
	state, err := json.Marshal(st)
	if err != nil {
		panic("adaptive: internal error: " + err.Error())
	}
	return scan.Step{Range: r, State: state}
}

// resume returns the step that reads on behind the page with this state.
func (st strand) resume(s scan.Step, p scan.Page) scan.Step {
	next := s.Continue(*p.Next)
	next.State = st.step(s.Range).State
	return next
}

// advance decides what becomes of the rest of a strand after a page that is not
// its last.
func (st strand) advance(s scan.Step, p scan.Page) []scan.Step {
	first := st.First
	st.First = false
	st.Since++
	rest := st.enter(s, p, first)
	v := st.look(s, p)
	st.Letters = st.Letters.learn(v.keys)
	near, far := st.measure(v)
	st.weigh(near, far, first)
	if st.Pages >= window {
		from := v.first()
		st.From, st.Pages = &from, 1
	}
	pieces := min(st.worth(), scan.MaxChildren-len(rest))
	gain := pieceSpread
	if pieces < 2 && float64(st.Since) >= patience*st.caution() && reaches(near, far, patienceLeft) {
		pieces, gain = 2, forcedSpread
	}
	if pieces < 2 || near == nil && far == nil {
		st.Spread = math.Hypot(st.Spread, fading)
		return append([]scan.Step{st.resume(s, p)}, rest...)
	}
	st.Spread = math.Hypot(st.Spread, gain)
	return append(st.cut(s, p, v, near, far, pieces), rest...)
}
