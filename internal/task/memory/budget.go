package memory

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// Small is the maximum size, in bytes, of a small part. Small parts come from a reserve of the budget, so they never
// wait for larger parts.
const Small = 256 << 10

// A budget has two reserves: one for small parts, and one for slow input. Together, the reserves are the fraction
// 1/reserved of the budget's memory.
const reserved = 16

// ErrFull means that a part is too small for its work and cannot grow. The work must release the part before it takes a
// larger part. Work that holds a part while it waits for memory may wait forever.
var ErrFull = errors.New("other work is using the process's memory")

// Budget limits the memory, in bytes, of the rows, bodies and answers that a process holds. Each call or step takes its part once, before it reads. A
// nil Budget has no limit. A Budget is safe for concurrent use.
type Budget struct {
	large, small, coming *pool
	*counts
}

// counts contains the numbers that [Usage] reports.
type counts struct{ used, most, waiting atomic.Int64 }

// pool is the memory for parts. Parts get their memory in the order in which they are requested.
type pool struct {
	free  *semaphore.Weighted
	bytes int64
	of    *pool // the pool that contains this pool, or nil
}

func newPool(bytes int64, of *pool) *pool { return &pool{semaphore.NewWeighted(bytes), bytes, of} }

func (p *pool) acquire(ctx context.Context, n int64) error {
	if p == nil {
		return nil
	}
	if err := p.free.Acquire(ctx, n); err != nil {
		return err
	}
	err := p.of.acquire(ctx, n)
	if err != nil {
		p.free.Release(n)
	}
	return err
}

func (p *pool) tryAcquire(n int64) bool {
	switch {
	case p == nil:
		return true
	case !p.free.TryAcquire(n):
		return false
	case !p.of.tryAcquire(n):
		p.free.Release(n)
		return false
	}
	return true
}

func (p *pool) release(n int64) {
	for ; p != nil; p = p.of {
		p.free.Release(n)
	}
}

// NewBudget returns a budget of the given size.
func NewBudget(bytes int64) *Budget {
	coming := bytes / reserved / 4
	small := max(Small, bytes/reserved-coming)
	return &Budget{newPool(max(1, bytes-small-coming), nil), newPool(small, nil), newPool(coming, nil), &counts{}}
}

// Steps returns the budget of work that can wait for minutes. All such work together takes at most three quarters of
// the memory for large work.
func (b *Budget) Steps() *Budget {
	if b == nil {
		return nil
	}
	return &Budget{newPool(max(1, b.large.bytes*3/4), b.large), b.small, b.coming, b.counts}
}

// Coming returns an empty part for input from a sender that may be slow. As input arrives, the part takes memory
// from a reserve. No other work waits for this reserve, so a slow sender does not delay other work.
func (b *Budget) Coming() *Part {
	if b == nil {
		return nil
	}
	return &Part{&holding{budget: b, from: b.coming}, true}
}

// Half is half of the memory for large work, in bytes. Work takes no more than this half, unless it is known to need more. Each
// pool gives out its memory in the order of the requests. So while a request for more than this half waits in a pool, all later requests in
// the same pool wait too. Requests for small parts use another pool.
func (b *Budget) Half() int64 { return b.Share(2) }

// Share is the number of bytes that each of n users gets if they share the memory for large work equally.
func (b *Budget) Share(n int) int64 {
	if b == nil {
		return math.MaxInt64
	}
	return max(1, b.large.bytes/int64(n))
}

// Usage describes how much of a budget is used.
type Usage struct {
	Bytes   int64 // the whole budget
	Used    int64 // the bytes that parts hold now
	Most    int64 // the most bytes that parts have held at the same time since the process began
	Waiting int64 // the number of calls and steps that wait for their part
}

// Usage returns the usage of the budget, or zero if b is nil.
func (b *Budget) Usage() Usage {
	if b == nil {
		return Usage{}
	}
	return Usage{Bytes: b.large.bytes + b.small.bytes + b.coming.bytes, Used: b.used.Load(), Most: b.most.Load(), Waiting: b.waiting.Load()}
}

// Take waits for its turn and for enough free bytes, and then takes the bytes. Work that needs more than the whole
// budget gets the whole budget, and runs alone. The caller must not hold another part.
func (b *Budget) Take(ctx context.Context, bytes int64) (*Part, error) {
	if b == nil {
		return nil, ctx.Err()
	}
	from, n := b.poolFor(bytes)
	b.waiting.Add(1)
	err := from.acquire(ctx, n)
	b.waiting.Add(-1)
	if err != nil {
		return nil, err
	}
	return b.part(from, n), nil
}

// TryTake takes the bytes if they are free and nobody waits for memory. Otherwise it returns nil and false.
func (b *Budget) TryTake(bytes int64) (p *Part, ok bool) {
	if b == nil {
		return nil, true
	}
	from, n := b.poolFor(bytes)
	if !from.tryAcquire(n) {
		return nil, false
	}
	return b.part(from, n), true
}

// poolFor returns the pool that provides a part for the given bytes, and the size of the part.
func (b *Budget) poolFor(bytes int64) (*pool, int64) {
	if bytes <= Small {
		return b.small, max(0, bytes)
	}
	return b.large, min(bytes, b.large.bytes)
}

func (b *Budget) part(from *pool, n int64) *Part {
	b.count(n)
	return &Part{holding: &holding{budget: b, from: from, bytes: n}}
}

func (b *Budget) count(bytes int64) {
	used := b.used.Add(bytes)
	for most := b.most.Load(); used > most && !b.most.CompareAndSwap(most, used); most = b.most.Load() {
	}
}

// Part is a part of a [Budget] that a call or a step holds. A nil Part belongs to a budget without a limit. A Part is safe for concurrent use.
type Part struct {
	*holding
	bounded bool // see [Part.Bounded]
}

// holding is the memory of a part.
type holding struct {
	budget *Budget
	from   *pool

	mu     sync.Mutex // guards the fields below
	bytes  int64      // the part's size
	used   int64      // see [Part.Use]; exceeds the part's size only if the part has the whole pool
	wanted int64      // the largest number of bytes that was used or requested
	over   bool       // the part was released and cannot grow, even if other goroutines of the same work still use it
}

type partKey struct{}

// In returns a context that contains the part.
func (p *Part) In(ctx context.Context) context.Context { return context.WithValue(ctx, partKey{}, p) }

// PartIn returns the context's part, or nil.
func PartIn(ctx context.Context) *Part {
	p, _ := ctx.Value(partKey{}).(*Part)
	return p
}

// Grow takes more bytes if they are free and nobody waits for memory. A part of at most [Small] bytes does not grow
// beyond [Small]. If a part already has all memory for large work, no other large work can run, so the part can
// always grow.
func (p *Part) Grow(bytes int64) bool {
	if p == nil {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.grow(bytes)
}

// Bounded returns a Part that holds the same memory as p, but never grows beyond the memory for large work. It is for work
// that can be split.
func (p *Part) Bounded() *Part {
	if p == nil {
		return nil
	}
	return &Part{p.holding, true}
}

func (p *Part) grow(bytes int64) bool {
	if bytes <= 0 {
		return true
	}
	if p.bounded && p.bytes+bytes > p.from.bytes {
		return false
	}
	if p.over || p.from == p.budget.small && p.bytes+bytes > Small {
		return false
	}
	more := min(bytes, p.from.bytes-p.bytes)
	if more > 0 && !p.from.tryAcquire(more) {
		return false
	}
	p.bytes += more
	p.budget.count(more)
	return true
}

// Use adds bytes, which may be negative, to the used bytes of the part. If the part has too few bytes, it grows. If the
// part cannot grow, Use changes nothing and reports false.
func (p *Part) Use(bytes int64) bool {
	if p == nil {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.use(p.used + bytes)
}

// SetUsed sets the used bytes of the part. If the part has too few bytes, it grows. If the part cannot grow, SetUsed changes
// nothing and reports false.
func (p *Part) SetUsed(bytes int64) bool {
	if p == nil {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.use(bytes)
}

func (p *Part) use(all int64) bool {
	p.wanted = max(p.wanted, all)
	if !p.grow(all - p.bytes) {
		return false
	}
	p.used = all
	return true
}

// Spare grows the part until it has the given number of unused bytes. It reports false if the part cannot grow.
func (p *Part) Spare(bytes int64) bool {
	if p == nil {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.grow(p.used + bytes - p.bytes)
}

// Used returns the number of used bytes.
func (p *Part) Used() int64 {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}

// Wanted returns the largest number of bytes that was used or requested. After [ErrFull], the work needs this number of
// bytes.
func (p *Part) Wanted() int64 {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wanted
}

// Keep reduces the part, and its used bytes, to at most the given bytes. The other bytes return to the budget.
// A part stays in its pool, even if it keeps only a few bytes.
func (p *Part) Keep(bytes int64) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if back := p.bytes - max(0, bytes); back > 0 {
		p.bytes -= back
		p.used = min(p.used, p.bytes)
		p.budget.count(-back)
		p.from.release(back)
	}
}

// Release returns all bytes and ends the part. A second call does nothing.
func (p *Part) Release() {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	p.Keep(0)
}
