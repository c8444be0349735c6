package sweep

import (
	"math"
	"testing"
	"time"
)

// One busy partition is left alone and slows nothing else. Two mean that the account is busy.
func TestThrottledPartitions(t *testing.T) {
	t.Parallel()
	p := newPacer(NewShare(math.MaxInt, 0), 64, DefaultBuffer, false, true)
	for range 3 {
		p.throttled(throttle{unit: true, partition: "a"})
		p.throttled(throttle{confined: true})
	}
	if p.target.seen.Refused != 1 || p.source.seen.Refused != 0 {
		t.Errorf("one busy partition counts %d times for the target, %d times for the source", p.target.seen.Refused, p.source.seen.Refused)
	}
	p.throttled(throttle{unit: true, partition: "b"})
	p.throttled(throttle{waits: true})
	if p.target.seen.Refused != 2 || p.source.seen.Refused != 1 || p.target.seen.Waits || !p.source.seen.Waits {
		t.Errorf("two busy partitions, and a query of many: %+v, %+v", p.target.seen, p.source.seen)
	}
	p.adjust(time.Second / 2)
	if p.throttled(throttle{unit: true, partition: "a"}); p.target.seen.Refused != 0 {
		t.Error("a partition counts twice in a measurement")
	}
	p.adjust(time.Second / 2)
	if p.throttled(throttle{unit: true, partition: "a"}); p.target.seen.Refused != 1 {
		t.Error("a partition does not count again")
	}
}

// What is read ahead has work for two pages' time. In table order, memory alone ends it.
func TestReadsAhead(t *testing.T) {
	t.Parallel()
	for _, inOrder := range []bool{false, true} {
		p := newPacer(NewShare(math.MaxInt, 0), 64, DefaultBuffer, inOrder, true)
		f := &frontier{ready: 1_000_000}
		if p.ahead(f) {
			t.Errorf("in order %v: enough is read before any unit has shown how long it takes", inOrder)
		}
		p.source.ended(time.Second)
		p.target.ended(100 * time.Millisecond)
		few := 2 * 10 * p.target.pace.Limit()
		for ready, want := range map[int]bool{few - 1: false, few: !inOrder} {
			f.ready = ready
			if got := p.ahead(f); got != want {
				t.Errorf("in order %v: %d units for %d slots of a tenth of a page's time are enough: %v, want %v", inOrder, ready, p.target.pace.Limit(), got, want)
			}
		}
	}
}

// Pages under way are expected to be of average size, but of half of the largest at least. In table
// order, where they are held, they count as the largest.
func TestRoomForPages(t *testing.T) {
	t.Parallel()
	for _, inOrder := range []bool{false, true} {
		p := newPacer(NewShare(math.MaxInt, 0), 64, 10_000, inOrder, true)
		if p.room(&frontier{}) {
			t.Error("a page of unknown size has room in 10,000 bytes")
		}
		p.expect(1600)
		for range 100 {
			p.expect(0)
		}
		want := 800
		if inOrder {
			want = 1600
		}
		if p.page != want {
			t.Errorf("in order %v: a page is expected to have %d bytes, want %d", inOrder, p.page, want)
		}
		f := &frontier{bytes: 10_000 - 2*want, reads: 1}
		if !p.room(f) {
			t.Errorf("in order %v: no room for what fits exactly", inOrder)
		}
		if f.bytes++; p.room(f) {
			t.Errorf("in order %v: room for a byte too many", inOrder)
		}
	}
}
