package sweep

import (
	"math"
	"testing"
	"time"

	"tablesweep/internal/task/memory"
)

// budgetOf returns a budget that has so many bytes for large work.
func budgetOf(bytes int) *memory.Budget {
	all := int64(bytes) + memory.Small
	for memory.NewBudget(all).Share(1) < int64(bytes) {
		all++
	}
	return memory.NewBudget(all)
}

// within returns the options of a sweep that may hold so many bytes.
func within(bytes int) Options {
	return Options{Workers: 64, Share: NewShare(math.MaxInt, 0), Memory: budgetOf(bytes)}
}

// One busy partition is left alone and slows nothing else. Two mean that the account is busy.
func TestThrottledPartitions(t *testing.T) {
	t.Parallel()
	p := newPacer(within(memory.Command), false)
	p.separateSource()
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
		p := newPacer(within(memory.Command), inOrder)
		p.separateSource()
		f := &frontier{ready: 1_000_000}
		if p.enoughRead(f) {
			t.Errorf("in order %v: enough is read before any unit has shown how long it takes", inOrder)
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

// Two sweeps with one budget: what one holds, the other has no room for, until it is given back. What the work holds beside the pages counts.
func TestSweepsShareMemory(t *testing.T) {
	t.Parallel()
	const page = 1 << 20
	budget, beside := budgetOf(3*page), int64(0)
	of := func() (*pacer, *frontier) {
		o := within(0)
		o.Memory, o.Beside = budget, func() int64 { return beside }
		p := newPacer(o, false)
		p.separateSource()
		p.page = page
		return p, &frontier{}
	}
	one, first := of()
	other, second := of()
	for first.reads < 20 && one.room(first) {
		first.reads++
	}
	if one.returnUnused(first); first.reads != 3 || other.room(second) || budget.Usage().Used != 3*page {
		t.Errorf("one has room for %d pages of 3, the other for some, %v; %+v", first.reads, other.room(second), budget.Usage())
	}
	first.reads = 2
	one.returnUnused(first)
	if !other.room(second) {
		t.Error("the other has no room for what was given back")
	}
	if other.returnUnused(second); budget.Usage().Used != 2*page {
		t.Errorf("the other holds nothing, and %d bytes are in use", budget.Usage().Used)
	}
	if beside = 2 * page; one.room(first) {
		t.Error("there is room for a page beside what the work holds")
	}
	one.release()
	other.release()
	if budget.Usage().Used != 0 {
		t.Errorf("%d bytes were not given back", budget.Usage().Used)
	}
}

// Pages under way are expected to be of average size, but of half of the largest at least. In table
// order, where they are held, they count as the largest.
func TestRoomForPages(t *testing.T) {
	t.Parallel()
	for _, inOrder := range []bool{false, true} {
		p := newPacer(within(10_000), inOrder)
		p.separateSource()
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
