package adaptive

import (
	"encoding/json"
	"math"

	"tablesweep/internal/key"
	"tablesweep/internal/split/scan"
)

// strand is the State of a step: what is known of the keys that it has still to read. It waits
// in messages and checkpoints while another version is deployed: one that lacks a field goes on, and learns
// from its next page.
type strand struct {
	// Stop is the first key that belongs to another step, if the strand ends before
	// its range does.
	Stop *key.Key `json:"stop,omitempty"`

	Left   float64 `json:"left"`             // pages believed left
	Credit float64 `json:"credit,omitempty"` // cuts that it may make

	First   bool     `json:"first,omitempty"` // nothing has been read yet
	Streak  int      `json:"run,omitempty"`   // the last pages that lay in one partition
	Inside  bool     `json:"in,omitempty"`    // what is left lies in one partition
	Trail   trail    `json:"trail"`
	Forks   forks    `json:"forks"`
	Letters alphabet `json:"abc"`

	Hinted bool    `json:"hinted,omitempty"` // it comes from a hint
	Due    float64 `json:"due,omitempty"`    // pages left that its hint told of; negative if it has outgrown that
	Share  float64 `json:"share,omitempty"`  // of a full page that a page has, as in the hints; 0 for all of it
	Group  *group  `json:"group,omitempty"`

	// Partitions tells that pages are to be seen as their partitions, and rows stepped over. Such a strand has no Stop: its range ends there.
	Partitions bool `json:"pk,omitempty"`
}

// step returns the step that starts to read a range with this state.
func (st strand) step(r key.Range) scan.Step {
	st.Left, st.Credit, st.Due = short(st.Left), short(st.Credit), short(st.Due)
	state, err := json.Marshal(st)
	if err != nil {
		panic("adaptive: internal error: " + err.Error())
	}
	return scan.Step{Range: r, State: state}
}

// short rounds a number for a message.
func short(f float64) float64 { return math.Round(f*1000) / 1000 }

// resume returns the step that reads on behind the page with this state.
func (st strand) resume(s scan.Step, p scan.Page) scan.Step {
	if st.Partitions {
		r := s.BehindPartition(p.Last().Partition).Range
		if st.Stop != nil {
			r.High, st.Stop = &key.Bound{Key: st.Stop.Partition, Open: true}, nil
		}
		return st.step(r)
	}
	next := s.Continue(*p.Next)
	next.State = st.step(s.Range).State
	return next
}

// view is a page as the rest of its strand sees it: by partition keys, or by
// row keys if the rest lies in one partition.
type view struct {
	partition *string  // the one that the rest lies in
	keys      []string // of the page, as far as they are in that partition
	end       *string  // where the strand ends
	share     float64  // of the page that keys are
}

func (v view) first() string { return v.keys[0] }
func (v view) last() string  { return v.keys[len(v.keys)-1] }

// within reports whether what is left of the strand lies in the partition of
// the page's last row.
func (st strand) within(s scan.Step, p scan.Page) bool {
	last := p.Last().Partition
	return s.Range.Partition != nil || st.Stop != nil && st.Stop.Compare(key.BehindPartition(last)) <= 0
}

// view returns what the rest of the strand sees of the page.
func (st strand) view(s scan.Step, p scan.Page) view {
	v := view{share: 1}
	if !st.within(s, p) {
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

// survey takes a page into the strand's trail, letters and forks, and measures what lies ahead.
func (st *strand) survey(s scan.Step, v view) *gauge {
	if v.partition != nil && !st.Inside {
		st.Inside, st.Trail = true, trail{}
	}
	st.Letters = st.Letters.learn(v.keys)
	st.Forks = st.Forks.learn(v.keys)
	g := newGauge(st.Letters, v.last(), v.end)
	st.Trail = st.Trail.read(g, v.keys, v.share, start(s, v))
	g.survey(st.Trail, st.Forks)
	return g
}

// start returns the key from which on a strand has read everything, if this is
// the first page that it notices.
func start(s scan.Step, v view) string {
	switch {
	case v.share < 1: // the partition began on this page
		return ""
	case s.Token != nil:
		return v.first()
	case s.Range.Low != nil && (s.Range.Partition == nil) == (v.partition == nil):
		return s.Range.Low.Key
	}
	return ""
}

// goesOn reports whether the page's last partition is one that goes on and on.
func (st *strand) goesOn(p scan.Page) bool {
	st.Streak++
	if p.Keys[0].Partition != p.Last().Partition {
		st.Streak = 0
	}
	long := longStreak
	if st.Hinted {
		long = scan.HintPages // longer ones have hints inside
	}
	return st.Streak >= long
}

// leave makes the strand stop behind the page's last partition. It returns the
// strand for what follows it, and the range of that, which may be empty.
func (st *strand) leave(s scan.Step, p scan.Page) (strand, key.Range) {
	last := p.Last().Partition
	r := s.BehindPartition(last).Range
	if st.Stop != nil {
		r.High = &key.Bound{Key: st.Stop.Partition, Open: true}
	}
	st.Streak = 0
	st.Due /= 2
	rest := *st
	st.Credit = min(st.Credit, 1) // for the partition; the rest may be long
	rest.Stop = nil
	stop := key.BehindPartition(last)
	st.Stop = &stop
	return rest, r
}
