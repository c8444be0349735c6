package adaptive

import (
	"encoding/json"
	"math"

	"tablesweep/internal/key"
	"tablesweep/internal/split/scan"
)

// strand is a step's State: what is known about the keys that the step has yet to read. It stays in messages and checkpoints
// while another version is deployed. A step whose state lacks a field continues, and learns from its next page.
type strand struct {
	// Stop is the first key that belongs to another step, if the strand ends before its range.
	Stop *key.Key `json:"stop,omitempty"`

	Left   float64 `json:"left"`             // expected pages left
	Credit float64 `json:"credit,omitempty"` // cuts that it may make

	First   bool     `json:"first,omitempty"` // nothing has been read yet
	Streak  int      `json:"run,omitempty"`   // consecutive last pages that lay in one partition
	Inside  bool     `json:"in,omitempty"`    // the rest lies in one partition
	Trail   trail    `json:"trail"`
	Forks   forks    `json:"forks"`
	Letters alphabet `json:"abc"`

	Hinted bool    `json:"hinted,omitempty"` // a hint has cut it
	Due    float64 `json:"due,omitempty"`    // pages left by its hint; negative if the strand has exceeded them
	Share  float64 `json:"share,omitempty"`  // fraction of a full page's rows that each page has, as in the hints; 0 means 1
	Group  *group  `json:"group,omitempty"`

	// Partitions makes the strand see pages as lists of partitions, and skip rows. Such a strand has no Stop: its range ends
	// there.
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

// resume returns the step that continues after the page with this state.
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

// view is the part of a page that matters to the rest of its strand: partition keys, or row keys if the rest lies in one
// partition.
type view struct {
	partition *string  // the partition that contains the rest
	keys      []string // of the page, limited to that partition
	end       *string  // where the strand ends
	share     float64  // of the page's rows that are in the view
}

func (v view) first() string { return v.keys[0] }
func (v view) last() string  { return v.keys[len(v.keys)-1] }

// within reports whether the rest of the strand lies in the partition of the page's last row.
func (st strand) within(s scan.Step, p scan.Page) bool {
	last := p.Last().Partition
	return s.Range.Partition != nil || st.Stop != nil && st.Stop.Compare(key.BehindPartition(last)) <= 0
}

// view returns the strand's view of the page.
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

// survey adds a page to the strand's trail, letters and forks, and measures the keys ahead.
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

// start returns the key at which the strand began. It has read all keys from there on. It matters only for the first page of a
// trail.
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

// goesOn reports whether the page's last partition is a long one.
func (st *strand) goesOn(p scan.Page) bool {
	st.Streak++
	if p.Keys[0].Partition != p.Last().Partition {
		st.Streak = 0
	}
	long := longStreak
	if st.Hinted {
		long = scan.HintPages // longer partitions have hints inside
	}
	return st.Streak >= long
}

// stopAfterPartition makes the strand stop after the page's last partition. It returns a strand for the rest, and the range of the rest, which
// may be empty.
func (st *strand) stopAfterPartition(s scan.Step, p scan.Page) (strand, key.Range) {
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
