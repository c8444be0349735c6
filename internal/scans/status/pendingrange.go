package status

import (
	"slices"

	"tablesweep/internal/key"
	"tablesweep/internal/scans"
	"tablesweep/internal/split/adaptive"
	"tablesweep/internal/split/scan"
)

// pendingRange is a range that a pending step will read, or a scan's whole range.
type pendingRange struct {
	low        key.Key
	high       *key.Key // the first key after the range; nil at the table's end
	partlyRead bool     // some pages have been read
	last       bool     // the range is one page, and high is the page's last key
	launches   bool     // the step will also create steps beyond this range, which begin at keys from the hints
	state      string   // as shown
}

// pendingRangesOf returns a pending step's ranges. If the step will delete rows, these are the ranges of the pages to
// delete. Otherwise, the result is the one range that the step will read.
func pendingRangesOf(m scans.Message) (ranges []pendingRange) {
	if m.Delete == nil {
		return []pendingRange{rangeToRead(m)}
	}
	for _, p := range m.Delete.Pages {
		s := unreadRange(p.Range)
		s.high, s.partlyRead, s.last = &p.Last, true, true
		ranges = append(ranges, s)
	}
	return ranges
}

func rangeToRead(m scans.Message) pendingRange {
	s := unreadRange(m.Step.Range)
	stop, launches := adaptive.End(m.Step)
	if stop != nil {
		s.high = stop
	}
	s.partlyRead, s.launches = m.Step.Token != nil && !m.HandedOver, launches
	return s
}

func unreadRange(r key.Range) pendingRange {
	// first returns the first key of a range that starts at the bound b. If `open` is true, the range does not contain b.
	first := func(b key.Bound, open bool) key.Key {
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
	s := pendingRange{state: rangePending}
	if r.Partition != nil {
		behind := key.BehindPartition(*r.Partition)
		s.low, s.high = key.Key{Partition: *r.Partition}, &behind
	}
	if r.Low != nil {
		s.low = first(*r.Low, r.Low.Open)
	}
	if r.High != nil {
		high := first(*r.High, !r.High.Open)
		s.high = &high
	}
	return s
}

// disjoint returns the unread parts of the pending ranges, in key order. It cuts the ranges so that none of them
// overlaps another one or exceeds the range in the argument `whole`.
func disjoint(pending []pendingRange, ends []scan.PageEnd, whole pendingRange) []pendingRange {
	for i, p := range pending {
		pending[i] = p.advanced(ends)
	}
	slices.SortFunc(pending, func(a, b pendingRange) int { return a.low.Compare(b.low) })
	var left []pendingRange
	at := whole.low
	for i, p := range pending {
		if p.launches { // the step will create more steps, which will read the keys up to the next pending range
			p.high = whole.high
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
		left = append(left, p)
		if p.high == nil {
			break
		}
		at = *p.high
	}
	return left
}

// advanced returns the part of a range that is still unread after the given pages.
func (s pendingRange) advanced(ends []scan.PageEnd) pendingRange {
	if !s.partlyRead {
		return s
	}
	n := len(ends)
	if s.high != nil {
		n, _ = slices.BinarySearchFunc(ends, *s.high, func(e scan.PageEnd, k key.Key) int { return e.Last.Compare(k) })
	}
	if n > 0 && ends[n-1].Last.Compare(s.low) >= 0 {
		s.low = ends[n-1].Last.Behind()
	}
	if s.last {
		behind := s.high.Behind()
		s.high = &behind
	}
	return s
}
