package sweep

import (
	"sync/atomic"
	"time"

	"tablesweep/internal/action"
	"tablesweep/internal/split/scan"
	"tablesweep/internal/storage/pace"
	"tablesweep/internal/task/memory"
)

const (
	firstPage = 1 << 20 // the expected size of the first page, in bytes

	// firstReads and firstUnits are the numbers of concurrent queries and units at the beginning. With fewer queries, half of a small table would be
	// read before the pace has risen. With more queries, workers would steal ranges without rows, and some queries would be wasted. firstUnits is
	// larger, because a unit always has rows, so it is never wasted.
	firstReads = 24
	firstUnits = 64
)

// pacer decides how many queries and units may run concurrently, in which partitions they may run, and how many pages may be in memory.
type pacer struct {
	source, target side
	options        Options
	limiter        action.Limiter  // limits the requests to each partition
	reads          string          // in the limiter, the names of the source's partitions have this prefix; "" if reads and writes are counted together
	hot            map[string]bool // partitions throttled in the pace's current measurement

	inOrder       bool         // pages are processed in table order, so they wait in memory for their turn
	part          *memory.Part // the sweep's part of the process's memory; nil before the first page
	over          memory.Held  // the bytes that the sweep holds beyond twice [Options.Room]; 0 if there are none
	page, largest int          // the expected size of a page, and the size of the largest page so far, in bytes
	units         int          // the number of units into which the newest page was divided; pages without rows do not count
}

// newPacer returns a pacer that counts reads and writes of a partition together.
func newPacer(o Options, inOrder bool) *pacer {
	return &pacer{
		options: o, source: newSide(firstReads, o.Workers, &o.Share.source), target: newSide(firstUnits, o.Workers, &o.Share.target),
		hot: map[string]bool{}, inOrder: inOrder, page: firstPage,
	}
}

// separateSource makes the pacer count reads and writes separately. It is called if the action does not write to the source.
func (p *pacer) separateSource() { p.reads = "source/" }

// side is the source of the sweep, or the target to which its action sends requests.
type side struct {
	pace    *pace.Pace
	pool    *pool         // the pool of requests that the sweep shares with other sweeps
	seen    pace.Seen     // the answers since the last tick
	waiting *atomic.Int64 // requests that wait to be sent again, because the service was busy
	took    time.Duration // average duration of recent requests
}

func newSide(start, most int, shared *pool) side {
	return side{pace: pace.New(start, most), pool: shared, waiting: new(atomic.Int64)}
}

func (s *side) ended(took time.Duration) {
	s.pool.give()
	s.seen.Done++
	if s.took == 0 {
		s.took = took
	}
	s.took += (took - s.took) / 8
}

// freeRequests returns how many more requests may be started. Begun requests count against the limit, except for
// up to limit/4 requests that wait to be sent again. If all waiting requests were exempt,
// more requests would be started even while many wait.
func (s *side) freeRequests(begun int) int {
	limit := s.pace.Limit()
	free := limit - begun + min(int(s.waiting.Load()), limit/4)
	s.seen.Saturated = s.seen.Saturated || free <= 0
	return min(free, s.pool.part()-begun)
}

func (s *side) limit() int { return min(s.pace.Limit(), s.pool.part()) }

// tick adjusts the pace to the requests since the last tick. It reports whether a measurement of
// refusals has ended.
func (s *side) tick(elapsed time.Duration) (measured bool) {
	s.seen.Elapsed = elapsed
	measured = s.pace.Observe(s.seen)
	s.seen = pace.Seen{}
	return measured
}

// throttle is an answer by which the service throttles a request.
type throttle struct {
	unit      bool   // the request was a write of a unit; otherwise, it was a query
	partition string // the unit's partition
	confined  bool   // the query read only one partition
	waits     bool   // the answer contains a time to wait
}

// throttled counts a throttled request as a sign that the account is busy. One busy partition is not such a sign, but several busy partitions are.
// So a partition's throttled units count only once in a measurement, and throttled queries that read only one partition do not count.
func (p *pacer) throttled(t throttle) {
	s := &p.source
	switch {
	case t.unit && p.hot[t.partition], !t.unit && t.confined:
		return
	case t.unit:
		s = &p.target
		p.hot[t.partition] = true
	}
	s.seen.Refused++
	s.seen.Waits = s.seen.Waits || t.waits
}

func (p *pacer) adjust(elapsed time.Duration) {
	p.source.tick(elapsed)
	if p.target.tick(elapsed) {
		clear(p.hot)
	}
}

func (p *pacer) limit() int {
	if p.target.took == 0 {
		return p.source.limit()
	}
	return p.source.limit() + p.target.limit()
}

// enoughRead reports whether the unprocessed rows, and the rows of running queries, keep the target busy for as long as
// two queries take. While enoughRead returns true, the sweep starts no query, because rows that were read but not
// processed must be read again if the process dies.
func (p *pacer) enoughRead(f *frontier) bool {
	if p.inOrder || p.target.took == 0 { // in table order, only one unit runs at a time
		return false
	}
	coming := f.ready + f.reads*p.units
	slots := float64(p.target.limit())
	return float64(coming) >= 2*slots*max(1, p.source.took.Seconds()/p.target.took.Seconds())
}

// hasRoom reports whether there is memory for one more page. If there is, hasRoom reserves the memory. [pacer.returnUnused] releases
// reserved memory that no query has used.
func (p *pacer) hasRoom(f *frontier) (ok bool) {
	bytes := p.heldBytes(f) + int64(p.page)
	if bytes > p.options.Room() {
		return false
	}
	if p.part == nil { // take more than memory.Small bytes, because a smaller part could not grow beyond that size
		p.part, ok = p.options.Memory.TryTake(max(bytes, memory.Small+1))
		return ok
	}
	return p.part.Spare(bytes)
}

func (p *pacer) heldBytes(f *frontier) int64 {
	bytes := int64(f.bytes + f.reads*p.page)
	if p.options.Beside != nil {
		bytes += p.options.Beside()
	}
	return bytes
}

// returnUnused reduces the sweep's part of the memory to the bytes that the sweep holds. If the sweep holds more than [Options.Room]
// bytes, the budget does not count the bytes above Room. The garbage collector's limit allows for twice Room. For the bytes
// beyond twice Room, p.over raises this limit.
func (p *pacer) returnUnused(f *frontier) {
	bytes := p.heldBytes(f)
	p.part.Keep(bytes)
	p.over.Set(max(0, bytes-2*p.options.Room()))
}

func (p *pacer) release() {
	p.part.Release()
	p.over.Set(0)
}

// expect updates the expected size of the next pages. If pages are done in table order, they stay in memory for a long time, so the expected
// size is the largest size so far. If pages are done in any order, the expected size is the average, but at least half the largest size. The
// average alone would be too small, because it includes pages of stolen ranges, which are often empty.
func (p *pacer) expect(bytes int) {
	if p.largest == 0 {
		p.page = bytes
	}
	p.largest = max(p.largest, bytes)
	p.page = max(p.page+(bytes-p.page)/16, p.largest/2)
	if p.inOrder {
		p.page = p.largest
	}
}

// freePartitions returns a function that reports whether a partition may get one more request.
func (p *pacer) freePartitions() func(partition string) bool {
	var last *string
	free := false
	return func(partition string) bool {
		if last == nil || *last != partition {
			last, free = &partition, p.limiter.Free(partition)
		}
		return free
	}
}

func (p *pacer) readable() func(scan.Step) bool {
	free := p.freePartitions()
	return func(s scan.Step) bool { return s.Range.Partition == nil || free(p.reads+*s.Range.Partition) }
}
