package status

import (
	"slices"

	"tablesweep/internal/key"
	"tablesweep/internal/scans"
	"tablesweep/internal/split/adaptive"
	"tablesweep/internal/split/scan"
)

// pendingRange is a part of the table: what a pending step will read, or a scan's whole range.
type pendingRange struct {
	low      key.Key
	high     *key.Key // the first key behind it; nil where the table ends
	goesOn   bool     // pages of it have been read
	last     bool     // it ends with the page that ends at high, and begins behind the page before
	launches bool     // the step also starts steps behind its range, along hints
	state    string   // of the range, as it is shown
}

// pendingRangesOf returns the ranges of a pending step: those of the pages that it is to delete, or one.
func pendingRangesOf(m scans.Message) (ranges []pendingRange) {
	if m.Delete == nil {
		return []pendingRange{rangeToRead(m)}
	}
	for _, p := range m.Delete.Pages {
		s := unreadRange(p.Range)
		s.high, s.goesOn, s.last = &p.Last, true, true
		ranges = append(ranges, s)
	}
	return ranges
}

// rangeToRead returns the range of a pending step that reads.
func rangeToRead(m scans.Message) pendingRange {
	s := unreadRange(m.Step.Range)
	stop, launches := adaptive.End(m.Step)
	if stop != nil {
		s.high = stop
	}
	s.goesOn, s.launches = m.Step.Token != nil && !m.HandedOver, launches
	return s
}

func unreadRange(r key.Range) pendingRange {
	first := func(b key.Bound, open bool) key.Key { // the first key at or, if open, behind the bound
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

// disjoint returns pending ranges of the whole in order, each without what was read or the one ahead of it has.
func disjoint(pending []pendingRange, ends []scan.PageEnd, whole pendingRange) []pendingRange {
	for i, p := range pending {
		pending[i] = p.advanced(ends)
	}
	slices.SortFunc(pending, func(a, b pendingRange) int { return a.low.Compare(b.low) })
	var left []pendingRange
	at := whole.low
	for i, p := range pending {
		if p.launches { // its other steps follow its range; only the hints say how far
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

// advanced returns what is left of a range, given the ends of the pages that were read.
func (s pendingRange) advanced(ends []scan.PageEnd) pendingRange {
	if !s.goesOn {
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
