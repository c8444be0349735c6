package status

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/split/scan"
)

// maxRanges is the maximum number of ranges that are shown.
const maxRanges = 500

// Ranges shows which parts of a scan's key range are done.
type Ranges struct {
	At     time.Time  `json:"at"` // when the ranges were read
	Ranges []KeyRange `json:"ranges"`
	// Sampled is set if some pending steps were not read. The ranges of these steps are shown as done.
	Sampled bool `json:"sampled,omitempty"`
}

// Ranges returns at most maxRanges ranges of a scan, in table order.
func (rd *Reader) Ranges(ctx context.Context, id ledger.ScanID) (Ranges, error) {
	found, err := rd.detail(ctx, id)
	if err != nil {
		return Ranges{}, err
	}
	r, err := scans.RequestOf(found.Scan)
	if err != nil {
		return Ranges{}, err
	}
	var ends []scan.PageEnd
	for _, note := range found.Notes {
		ends = append(ends, scans.ParseNote(note)...)
	}
	var pending []pendingRange
	leased := rd.latest.Load().steps(id, found.Date)
	for _, p := range found.Pending {
		m, err := scans.ParseMessage(p.Message)
		if err != nil || m.RowRetry != nil {
			continue
		}
		for _, s := range pendingRangesOf(m) {
			switch {
			case p.Reason != "" && found.Scan.State == ledger.Failed:
				s.state = RangeFailed
			case leased[p.ID]:
				s.state = rangeLeased
			}
			pending = append(pending, s)
		}
	}
	ranges := atMost(maxRanges, rangesOf(r.Range.Range(), ends, pending))
	return Ranges{At: found.Date, Ranges: ranges, Sampled: !found.Whole}, nil
}

// latestHeartbeats stores the heartbeats that were read for the latest status. [Reader.Ranges] uses these heartbeats and
// does not request them again, because a caller that shows ranges also requests the status.
type latestHeartbeats struct {
	heartbeats []ledger.Heartbeat
	at         time.Time // by the service's clock
}

// steps returns those steps of a scan that, according to the heartbeats, are held by living processes. If the heartbeats
// were read more than detailTime before now, the result is empty.
func (h *latestHeartbeats) steps(scan ledger.ScanID, now time.Time) map[ledger.StepID]bool {
	steps := map[ledger.StepID]bool{}
	if h == nil || now.Sub(h.at) > detailTime {
		return steps
	}
	for _, b := range h.heartbeats {
		for _, s := range b.Steps {
			if s.Scan == scan && b.Age < repairTime {
				steps[s.Step] = true
			}
		}
	}
	return steps
}

// KeyRange is a part of a scan's key range.
type KeyRange struct {
	From  *Edge  `json:"from,omitempty"` // absent at the table's beginning
	To    *Edge  `json:"to,omitempty"`   // absent at the table's end
	State string `json:"state"`          // RangeDone, rangePending, rangeLeased or RangeFailed
	Rows  int64  `json:"rows"`           // rows read so far
}

// Edge is where a range begins or ends.
type Edge struct {
	PartitionKey string `json:"partitionKey"`
	RowKey       string `json:"rowKey,omitempty"`
}

// The states of ranges.
const (
	RangeDone    = "done"
	rangePending = "pending"
	rangeLeased  = "leased" // pending, and a process holds the step
	RangeFailed  = "failed" // its step failed, or some of its rows could not be written
)

// rangesOf divides a scan's range into done, pending and failed ranges, in table order. A step's token is opaque, so
// only the ends of pages show where the step continues.
func rangesOf(whole key.Range, ends []scan.PageEnd, pending []pendingRange) []KeyRange {
	ends = redone(scan.Thin(ends, max(1, len(ends)))) // sorted
	bounds := unreadRange(whole)
	d := division{at: bounds.low, ends: ends}
	for _, p := range disjoint(pending, ends, bounds) {
		d.done(&p.low)
		d.add(p.high, p.state)
		if p.high == nil {
			return d.ranges
		}
	}
	d.done(bounds.high)
	return d.ranges
}

// redone returns one entry for each page, even if `ends` has several entries for the same page. It subtracts the page's
// retried rows from the page's failed rows. If a page has more retried rows than failed rows, [scan.Thin] may have
// merged failed rows of this page into a later page. So redone subtracts the rest of the retried rows from the failed
// rows of the next pages.
func redone(ends []scan.PageEnd) []scan.PageEnd {
	var pages []scan.PageEnd
	for _, e := range ends {
		if n := len(pages); n > 0 && pages[n-1].Last == e.Last {
			pages[n-1].Rows += e.Rows
			pages[n-1].Failed += e.Failed
			continue
		}
		pages = append(pages, e)
	}
	written := 0 // number of retried rows that are not subtracted yet
	for i, p := range pages {
		left := p.Failed - written
		pages[i].Failed, written = max(0, left), max(0, -left)
	}
	return pages
}

// division is the part of a scan's range that is already divided into ranges: from the range's beginning to the key
// `at`.
type division struct {
	ranges []KeyRange
	at     key.Key
	ends   []scan.PageEnd // the ends of the pages after the divided part, in table order
}

// done divides the keys up to `high`, or up to the table's end if `high` is nil. Pages with failed rows become failed
// ranges, and all other keys become done ranges.
func (d *division) done(high *key.Key) {
	failed := func(e scan.PageEnd) bool { return e.Failed > 0 }
	for i := slices.IndexFunc(d.ends, failed); i >= 0 && (high == nil || d.ends[i].Last.Compare(*high) < 0); i = slices.IndexFunc(d.ends, failed) {
		behind := d.ends[i].Last.Behind()
		if i > 0 {
			before := d.ends[i-1].Last.Behind()
			d.add(&before, RangeDone)
		}
		d.add(&behind, RangeFailed)
	}
	d.add(high, RangeDone)
}

// add appends the range that ends at `high`, or at the table's end if `high` is nil. It omits an empty range, and
// merges a range with the previous one if both have the same state.
func (d *division) add(high *key.Key, state string) {
	r := KeyRange{From: edge(d.at), State: state}
	for len(d.ends) > 0 && (high == nil || d.ends[0].Last.Compare(*high) < 0) {
		r.Rows += int64(d.ends[0].Rows)
		d.ends = d.ends[1:]
	}
	if high != nil {
		if d.at.Compare(*high) >= 0 {
			return
		}
		r.To, d.at = edge(*high), *high
	}
	if n := len(d.ranges); n > 0 && d.ranges[n-1].State == state {
		last := &d.ranges[n-1]
		last.To, last.Rows = r.To, last.Rows+r.Rows
		return
	}
	d.ranges = append(d.ranges, r)
}

// edge converts a key for an answer. It returns nil for the table's beginning. In a range, a key with a NUL at its end
// means "after this key". edge removes the NUL.
func edge(k key.Key) *Edge {
	if k == (key.Key{}) {
		return nil
	}
	return &Edge{strings.TrimSuffix(k.Partition, "\x00"), strings.TrimSuffix(k.Row, "\x00")}
}

// atMost merges neighbours until at most limit ranges are left. If one of the merged ranges is pending or failed, the
// new range has this state. atMost begins with the done ranges that have the fewest rows, so most done rows are still
// shown as done.
func atMost(limit int, ranges []KeyRange) []KeyRange {
	for len(ranges) > limit {
		var done []int
		for i, r := range ranges {
			if r.State == RangeDone {
				done = append(done, i)
			}
		}
		if len(done) == 0 {
			size := (len(ranges) + limit - 1) / limit
			return joined(ranges, func(i int, _ KeyRange) bool { return i%size != 0 })
		}
		slices.SortStableFunc(done, func(a, b int) int { return cmp.Compare(ranges[a].Rows, ranges[b].Rows) })
		gone := map[int]bool{} // ranges merged with their neighbours
		for _, i := range done[:min(len(done), (len(ranges)-limit+1)/2)] {
			gone[i] = true
		}
		ranges = joined(ranges, func(i int, last KeyRange) bool { return gone[i] || gone[i-1] || ranges[i].State == last.State })
	}
	return ranges
}

// joined merges each range for which mustJoin returns true into the previous range. The argument `last` of mustJoin is
// the previous range, after any merges into it.
func joined(ranges []KeyRange, mustJoin func(i int, last KeyRange) bool) []KeyRange {
	merged := []KeyRange{ranges[0]}
	for i, r := range ranges[1:] {
		last := &merged[len(merged)-1]
		if !mustJoin(i+1, *last) {
			merged = append(merged, r)
			continue
		}
		last.To, last.Rows, last.State = r.To, last.Rows+r.Rows, worse(last.State, r.State)
	}
	return merged
}

// worse returns the state of a range that is merged from ranges with the states a and b.
func worse(a, b string) string {
	for _, state := range []string{RangeFailed, rangePending, rangeLeased} {
		if a == state || b == state {
			return state
		}
	}
	return RangeDone
}
