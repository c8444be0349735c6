package adaptive

import (
	"encoding/json"
	"math"

	"tablesweep/internal/key"
	"tablesweep/internal/split/scan"
)

// strand is the State of a step: what is known about the keys that the step has yet to read. Another version of the program may have written the state. If
// the state lacks a field, the step continues without it, and learns from its next page.
type strand struct {
	// Stop is a key in the range: this step reads only the keys before Stop, and other steps read the rest. If this step reads to the range's end,
	// Stop is nil.
	Stop *key.Key `json:"stop,omitempty"`

	Left   float64 `json:"left"`             // expected unread pages
	Credit float64 `json:"credit,omitempty"` // cuts that may be made

	First   bool     `json:"first,omitempty"` // no page was read yet
	Streak  int      `json:"run,omitempty"`   // how many pages, counted back from the last page read, lay in one partition
	Inside  bool     `json:"in,omitempty"`    // all unread keys lie in one partition
	Trail   trail    `json:"trail"`
	Forks   forks    `json:"forks"`
	Letters alphabet `json:"abc"`

	Hinted bool    `json:"hinted,omitempty"` // the piece lies between hints
	Due    float64 `json:"due,omitempty"`    // unread pages according to the hint; negative if more pages were read
	Share  float64 `json:"share,omitempty"`  // according to the hints, the rows of a page divided by the rows of a full page; 0 means 1
	Group  *group  `json:"group,omitempty"`

	// If Partitions is set, the step lists partition keys; see [Strategy.Partitions]. Such a step needs no Stop, because its range ends where the
	// next piece begins.
	Partitions bool `json:"pk,omitempty"`
}

// step returns a new step that reads the range r. The step has the state st.
func (st strand) step(r key.Range) scan.Step {
	st.Left, st.Credit, st.Due = rounded(st.Left), rounded(st.Credit), rounded(st.Due)
	state, err := json.Marshal(st)
	if err != nil {
		panic("adaptive: internal error: " + err.Error())
	}
	return scan.Step{Range: r, State: state}
}

func rounded(f float64) float64 { return math.Round(f*1000) / 1000 }

// continueAfter returns the step that continues with this state after the page.
func (st strand) continueAfter(s scan.Step, p scan.Page) scan.Step {
	if st.Partitions {
		r := s.AfterPartition(p.Last().Partition).Range
		if st.Stop != nil {
			r.High, st.Stop = &key.Bound{Key: st.Stop.Partition, Open: true}, nil
		}
		return st.step(r)
	}
	next := s.Continue(*p.Next)
	next.State = st.step(s.Range).State
	return next
}

// view contains the keys of a page from which the strand estimates the unread keys. If all unread keys lie in one partition, the
// view contains row keys of this partition. Otherwise, it contains partition keys.
type view struct {
	partition *string  // the partition that contains the unread keys
	keys      []string // the page's row keys in this partition; if partition is nil, the page's partition keys
	end       *string  // where the piece ends
	share     float64  // the share of the page's rows that are in the view
}

func (v view) first() string { return v.keys[0] }
func (v view) last() string  { return v.keys[len(v.keys)-1] }

// inPartition reports whether all unread keys lie in the partition of the page's last row.
func (st strand) inPartition(s scan.Step, p scan.Page) bool {
	last := p.Last().Partition
	return s.Range.Partition != nil || st.Stop != nil && st.Stop.Compare(key.BehindPartition(last)) <= 0
}

func (st strand) view(s scan.Step, p scan.Page) view {
	v := view{share: 1}
	if !st.inPartition(s, p) {
		for _, k := range p.Keys {
			v.keys = append(v.keys, k.Partition)
		}
		switch {
		case st.Stop != nil:
			v.end = &st.Stop.Partition
		case s.Range.High != nil:
			v.end = &s.Range.High.Key
		}
		return v
	}
	last := p.Last().Partition
	for _, k := range p.Keys {
		if k.Partition == last {
			v.keys = append(v.keys, k.Row)
		}
	}
	v.partition, v.share = &last, float64(len(v.keys))/float64(len(p.Keys))
	switch {
	case st.Stop != nil && st.Stop.Partition == last:
		v.end = &st.Stop.Row
	case st.Stop == nil && s.Range.High != nil:
		v.end = &s.Range.High.Key
	}
	return v
}

// survey learns from a page, and estimates the keys that follow.
func (st *strand) survey(s scan.Step, v view) *gauge {
	if v.partition != nil && !st.Inside {
		st.Inside, st.Trail = true, trail{}
	}
	st.Letters = st.Letters.afterPage(v.keys)
	st.Forks = st.Forks.afterPage(v.keys)
	g := newGauge(st.Letters, v.last(), v.end)
	st.Trail = st.Trail.afterPage(g, v.keys, v.share, firstKey(s, v))
	g.survey(st.Trail, st.Forks)
	return g
}

// firstKey returns the start of the range that the page covers. afterPage uses the result only for the first page of a trail.
func firstKey(s scan.Step, v view) string {
	switch {
	case v.share < 1: // the partition begins on this page
		return ""
	case s.Token != nil:
		return v.first()
	case s.Range.Low != nil && (s.Range.Partition == nil) == (v.partition == nil):
		return s.Range.Low.Key
	}
	return ""
}

func (st *strand) endsInLong(p scan.Page) bool {
	st.Streak++
	if p.Keys[0].Partition != p.Last().Partition {
		st.Streak = 0
	}
	long := longStreak
	if st.Hinted {
		long = scan.HintPages // longer partitions contain hints
	}
	return st.Streak >= long
}

// stopAfterPartition makes st stop after the page's last partition. Another step must read the later partitions. stopAfterPartition returns this
// other step's state and range.
func (st *strand) stopAfterPartition(s scan.Step, p scan.Page) (strand, key.Range) {
	last := p.Last().Partition
	r := s.AfterPartition(last).Range
	if st.Stop != nil {
		r.High = &key.Bound{Key: st.Stop.Partition, Open: true}
	}
	st.Streak = 0
	st.Due /= 2
	rest := *st
	st.Credit = min(st.Credit, 1) // this partition gets at most one cut; the later partitions may be long, so their step keeps the whole credit
	rest.Stop = nil
	stop := key.BehindPartition(last)
	st.Stop = &stop
	return rest, r
}
