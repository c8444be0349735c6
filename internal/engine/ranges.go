package engine

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"tablesweep/internal/engine/ledger"
	"tablesweep/internal/key"
	"tablesweep/internal/scan/adaptive"
)

// maxRanges is the most ranges that are shown of a scan.
const maxRanges = 500

// Ranges shows which parts of a scan's key range are done.
type Ranges struct {
	At     time.Time  `json:"at"` // when they were read; a few seconds ago
	Ranges []KeyRange `json:"ranges"`
	// Sampled is true if there were too many pending steps to read all of them. Then some ranges
	// are pending that are shown as done.
	Sampled bool `json:"sampled,omitempty"`
}

// Ranges returns a scan's ranges in table order: at most maxRanges.
func (e *Engine) Ranges(ctx context.Context, id string) (Ranges, error) {
	found, err := e.detail(ctx, id)
	if err != nil {
		return Ranges{}, err
	}
	r, err := requestOf(found.Scan)
	if err != nil {
		return Ranges{}, err
	}
	var ends []adaptive.PageEnd
	for _, note := range found.Notes {
		ends = append(ends, parseNote(note)...)
	}
	var pending []span
	for _, p := range found.Pending {
		if m, err := parseMessage(p.Message); err == nil {
			s := spanOf(m)
			s.failed = p.Reason != "" && found.Scan.State == ledger.Failed
			pending = append(pending, s)
		}
	}
	ranges := atMost(maxRanges, rangesOf(r.Range.Range(), ends, pending))
	return Ranges{At: found.Date, Ranges: ranges, Sampled: !found.Whole}, nil
}

// KeyRange is a part of a scan's key range.
type KeyRange struct {
	From  *RowPlace `json:"from,omitempty"` // absent where the table begins
	To    *RowPlace `json:"to,omitempty"`   // absent where it ends
	State string    `json:"state"`          // RangeDone, RangePending or RangeFailed
	Rows  int64     `json:"rows"`           // rows read there until now
}

// RowPlace is a place in a table's order.
type RowPlace struct {
	PartitionKey string `json:"partitionKey"`
	RowKey       string `json:"rowKey,omitempty"`
}

// The states of ranges.
const (
	RangeDone    = "done"
	rangePending = "pending"
	RangeFailed  = "failed" // a step failed there, or rows could not be written
)

// span is the part of the table that a pending step will read.
type span struct {
	low      key.Key
	high     *key.Key // the first key behind it; nil where the table ends
	goesOn   bool     // pages of it have been read
	launches bool     // the step also starts steps behind its span, along hints
	failed   bool
}

// spanOf returns a pending step's span.
func spanOf(m message) span {
	s := spanOfRange(m.Step.Range)
	stop, launches := adaptive.End(m.Step)
	if stop != nil {
		s.high = stop
	}
	s.goesOn, s.launches = m.Step.Token != nil && !m.Rows, launches
	return s
}

func spanOfRange(r key.Range) span {
	place := func(b key.Bound, open bool) key.Key { // the first key at or, if open, behind the bound
		k := key.Key{Partition: b.Key}
		if r.Partition != nil {
			k = key.Key{Partition: *r.Partition, Row: b.Key}
		}
		switch {
		case !open:
			return k
		case r.Partition != nil:
			return k.Behind()
		}
		return key.BehindPartition(b.Key)
	}
	var s span
	if r.Partition != nil {
		behind := key.BehindPartition(*r.Partition)
		s.low, s.high = key.Key{Partition: *r.Partition}, &behind
	}
	if r.Low != nil {
		s.low = place(*r.Low, r.Low.Open)
	}
	if r.High != nil {
		high := place(*r.High, !r.High.Open)
		s.high = &high
	}
	return s
}

// rangesOf divides a scan's range into done, pending and failed ranges, in table order. The ends of pages
// show how far a continuing step has come: its token is opaque.
func rangesOf(whole key.Range, ends []adaptive.PageEnd, pending []span) []KeyRange {
	ends = adaptive.Thin(ends, max(1, len(ends))) // sorted
	for i, p := range pending {
		pending[i] = p.advanced(ends)
	}
	slices.SortFunc(pending, func(a, b span) int { return a.low.Compare(b.low) })
	bounds := spanOfRange(whole)
	at := bounds.low
	var ranges []KeyRange
	add := func(from key.Key, to *key.Key, state string) {
		if to != nil && from.Compare(*to) >= 0 {
			return
		}
		r := KeyRange{From: rowPlace(from), State: state}
		if to != nil {
			r.To = rowPlace(*to)
		}
		for len(ends) > 0 && (to == nil || ends[0].Last.Compare(*to) < 0) {
			r.Rows += int64(ends[0].Rows)
			ends = ends[1:]
		}
		if n := len(ranges); n > 0 && ranges[n-1].State == state {
			r.From, r.Rows = ranges[n-1].From, r.Rows+ranges[n-1].Rows
			ranges = ranges[:n-1]
		}
		ranges = append(ranges, r)
	}
	done := func(to *key.Key) { // adds the done range from at on, with failed pages apart
		for i := 0; i < len(ends) && (to == nil || ends[i].Last.Compare(*to) < 0); i++ {
			if ends[i].Failed == 0 {
				continue
			}
			if i > 0 {
				before := ends[i-1].Last.Behind()
				add(at, &before, RangeDone)
				at = before
			}
			behind := ends[0].Last.Behind()
			add(at, &behind, RangeFailed)
			at, i = behind, -1
		}
		add(at, to, RangeDone)
	}
	for i, p := range pending {
		if p.launches { // its other steps follow its span; only the hints say how far
			p.high = bounds.high
			if i+1 < len(pending) {
				p.high = &pending[i+1].low
			}
		}
		if p.low.Compare(at) < 0 {
			p.low = at
		}
		if p.high != nil && p.low.Compare(*p.high) >= 0 {
			continue
		}
		done(&p.low)
		state := rangePending
		if p.failed {
			state = RangeFailed
		}
		add(p.low, p.high, state)
		if p.high == nil {
			return ranges
		}
		at = *p.high
	}
	done(bounds.high)
	return ranges
}

// advanced returns what is left of a span, given the ends of the pages that were read.
func (s span) advanced(ends []adaptive.PageEnd) span {
	if !s.goesOn {
		return s
	}
	n := len(ends)
	if s.high != nil {
		n, _ = slices.BinarySearchFunc(ends, *s.high, func(e adaptive.PageEnd, k key.Key) int { return e.Last.Compare(k) })
	}
	if n > 0 && ends[n-1].Last.Compare(s.low) >= 0 {
		s.low = ends[n-1].Last.Behind()
	}
	return s
}

// rowPlace returns a place as callers see it, nil for the table's beginning. It leaves out the NUL
// that excludes the key itself: real keys have none.
func rowPlace(k key.Key) *RowPlace {
	if k == (key.Key{}) {
		return nil
	}
	return &RowPlace{strings.TrimSuffix(k.Partition, "\x00"), strings.TrimSuffix(k.Row, "\x00")}
}

// atMost merges neighbours until there are at most so many ranges. A range that is pending or failed in part
// counts as pending or failed. So atMost first merges the done ranges with the fewest rows into their neighbours:
// then as many done rows as possible still show as done.
func atMost(most int, ranges []KeyRange) []KeyRange {
	for len(ranges) > most {
		var done []int
		for i, r := range ranges {
			if r.State == RangeDone {
				done = append(done, i)
			}
		}
		if len(done) == 0 {
			size := (len(ranges) + most - 1) / most
			return joined(ranges, func(i int, _ KeyRange) bool { return i%size != 0 })
		}
		slices.SortStableFunc(done, func(a, b int) int { return cmp.Compare(ranges[a].Rows, ranges[b].Rows) })
		gone := map[int]bool{} // each merges with its neighbours
		for _, i := range done[:min(len(done), (len(ranges)-most+1)/2)] {
			gone[i] = true
		}
		ranges = joined(ranges, func(i int, last KeyRange) bool { return gone[i] || gone[i-1] || ranges[i].State == last.State })
	}
	return ranges
}

// joined merges each range for which joins reports true into the one before it. last is that one
// with everything merged until then.
func joined(ranges []KeyRange, joins func(i int, last KeyRange) bool) []KeyRange {
	merged := []KeyRange{ranges[0]}
	for i, r := range ranges[1:] {
		last := &merged[len(merged)-1]
		if !joins(i+1, *last) {
			merged = append(merged, r)
			continue
		}
		last.To, last.Rows, last.State = r.To, last.Rows+r.Rows, worse(last.State, r.State)
	}
	return merged
}

// worse returns the state of two merged neighbours.
func worse(a, b string) string {
	for _, state := range []string{RangeFailed, rangePending} {
		if a == state || b == state {
			return state
		}
	}
	return RangeDone
}
