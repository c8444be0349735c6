package sweep

import (
	"math"
	"testing"
	"time"

	"tablesweep/internal/task/memory"
)

// budgetOf returns a budget with the given number of bytes for large work.
func budgetOf(bytes int) *memory.Budget {
	all := int64(bytes) + memory.Small
	for memory.NewBudget(all).Share(1) < int64(bytes) {
		all++
	}
	return memory.NewBudget(all)
}

// optionsWith returns the options of a sweep that may hold the given number of bytes.
func optionsWith(bytes int) Options {
	return Options{Workers: 64, Share: NewShare(math.MaxInt, 0), Memory: budgetOf(bytes)}
}

// A single busy partition does not slow other requests. Two busy partitions mean that the account is busy.
func TestThrottledPartitions(t *testing.T) {
	t.Parallel()
	p := newPacer(optionsWith(memory.Command), false)
	p.separateSource()
	for range 3 {
		p.throttled(throttle{unit: true, partition: "a"})
		p.throttled(throttle{confined: true})
	}
	if p.target.seen.Refused != 1 || p.source.seen.Refused != 0 {
		t.Errorf("one busy partition counts %d times for the target and %d times for the source", p.target.seen.Refused, p.source.seen.Refused)
	}
	p.throttled(throttle{unit: true, partition: "b"})
	p.throttled(throttle{waits: true})
	if p.target.seen.Refused != 2 || p.source.seen.Refused != 1 || p.target.seen.Waits || !p.source.seen.Waits {
		t.Errorf("two busy partitions, and a query of many partitions: got %+v, %+v", p.target.seen, p.source.seen)
	}
	p.adjust(time.Second / 2)
	if p.throttled(throttle{unit: true, partition: "a"}); p.target.seen.Refused != 0 {
		t.Error("a partition counted twice in one measurement")
	}
	p.adjust(time.Second / 2)
	if p.throttled(throttle{unit: true, partition: "a"}); p.target.seen.Refused != 1 {
		t.Error("a partition did not count again in the next measurement")
	}
}

// A sweep reads ahead as much work as two page times need. In table order, only memory limits the reading.
func TestEnoughRead(t *testing.T) {
	t.Parallel()
	for _, inOrder := range []bool{false, true} {
		p := newPacer(optionsWith(memory.Command), inOrder)
		p.separateSource()
		f := &frontier{ready: 1_000_000}
		if p.enoughRead(f) {
			t.Errorf("in order %v: enough is read before the duration of any unit is known", inOrder)
		}
		p.source.ended(time.Second)
		p.target.ended(100 * time.Millisecond)
		few := 2 * 10 * p.target.pace.Limit()
		for ready, want := range map[int]bool{few - 1: false, few: !inOrder} {
			f.ready = ready
			if got := p.enoughRead(f); got != want {
				t.Errorf("in order %v: %d units for %d slots of a tenth of a page's time are enough: %v, want %v", inOrder, ready, p.target.pace.Limit(), got, want)
			}
		}
	}
}

// If two sweeps share a budget, memory that one of them holds is not available to the other until it is returned. Memory that the work holds in
// addition to the pages also counts.
func TestSweepsShareMemory(t *testing.T) {
	t.Parallel()
	const page = 1 << 20
	budget, beside := budgetOf(3*page), int64(0)
	of := func() (*pacer, *frontier) {
		o := optionsWith(0)
		o.Memory, o.Beside = budget, func() int64 { return beside }
		p := newPacer(o, false)
		p.separateSource()
		p.page = page
		return p, &frontier{}
	}
	one, first := of()
	other, second := of()
	for first.reads < 20 && one.hasRoom(first) {
		first.reads++
	}
	if one.returnUnused(first); first.reads != 3 || other.hasRoom(second) || budget.Usage().Used != 3*page {
		t.Errorf("the first sweep has room for %d pages, want 3; the second has room: %v; the usage is %+v", first.reads, other.hasRoom(second), budget.Usage())
	}
	first.reads = 2
	one.returnUnused(first)
	if !other.hasRoom(second) {
		t.Error("the second sweep has no room after the first has returned memory")
	}
	if other.returnUnused(second); budget.Usage().Used != 2*page {
		t.Errorf("the second sweep holds no pages, but %d bytes are in use", budget.Usage().Used)
	}
	if beside = 2 * page; one.hasRoom(first) {
		t.Error("there is room for a page although the work holds the memory")
	}
	one.release()
	other.release()
	if budget.Usage().Used != 0 {
		t.Errorf("%d bytes were not returned", budget.Usage().Used)
	}
}

// A page that is being read is expected to have the average size, but at least half of the largest size. In table order, where pages are held for
// long, it is expected to have the largest size.
func TestRoomForPages(t *testing.T) {
	t.Parallel()
	for _, inOrder := range []bool{false, true} {
		p := newPacer(optionsWith(10_000), inOrder)
		p.separateSource()
		if p.hasRoom(&frontier{}) {
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
		if !p.hasRoom(f) {
			t.Errorf("in order %v: no room for a page that fits exactly", inOrder)
		}
		if f.bytes++; p.hasRoom(f) {
			t.Errorf("in order %v: room for a page that is one byte too large", inOrder)
		}
	}
}
