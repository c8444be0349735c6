package memory

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// Small is the largest part, in bytes, that comes out of a budget's reserve. Larger parts can't take the reserve, so small ones need
// not wait behind them.
const Small = 256 << 10

// reserved is the part of a budget that the reserves are, for small parts and for what comes slowly: one part in so many.
const reserved = 16

// ErrFull is the error of work for which its part of a budget does not suffice while no more is free. Its holder gives the part back, and
// takes a larger one: whoever waits while it holds a part can wait for ever.
var ErrFull = errors.New("the process's memory is taken by other work")

// Budget is the memory of a process, in bytes, for what its work holds: rows, bodies and answers. Each piece of work takes its part
// once, before it reads. A nil Budget has no limit. A Budget is safe for concurrent use.
type Budget struct {
	large, small, coming *pool
	*counts
}

// counts are what [Usage] tells.
type counts struct{ used, most, waiting atomic.Int64 }

// pool is what parts are taken from, in turn.
type pool struct {
	free  *semaphore.Weighted
	bytes int64
	of    *pool // whose part it is; nil if it is a whole one
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

// NewBudget returns a budget of so many bytes.
func NewBudget(bytes int64) *Budget {
	coming := bytes / reserved / 4
	small := max(Small, bytes/reserved-coming)
	return &Budget{newPool(max(1, bytes-small-coming), nil), newPool(small, nil), newPool(coming, nil), &counts{}}
}

// Steps returns the budget of work that can wait for minutes: all of it together leaves a quarter of the memory for large work to others.
func (b *Budget) Steps() *Budget {
	if b == nil {
		return nil
	}
	return &Budget{newPool(max(1, b.large.bytes*3/4), b.large), b.small, b.coming, b.counts}
}

// Coming returns a part for what comes as slowly as others send it. It has nothing at first, and uses what has come. Such parts
// have a reserve of their own, for which nobody waits: so who sends slowly keeps nobody waiting.
func (b *Budget) Coming() *Part {
	if b == nil {
		return nil
	}
	return &Part{&holding{budget: b, from: b.coming}, true}
}

// Half is the most, in bytes, that work takes unless it has found out that it needs more: who waits for that keeps all behind it waiting.
func (b *Budget) Half() int64 { return b.Share(2) }

// Share is what each of n pieces of large work may have, in bytes, if all of them have the same.
func (b *Budget) Share(n int) int64 {
	if b == nil {
		return math.MaxInt64
	}
	return max(1, b.large.bytes/int64(n))
}

// Usage is what a budget has been used for.
type Usage struct {
	Bytes   int64 // the whole budget
	Used    int64 // in parts now
	Most    int64 // in parts at once, since the process began
	Waiting int64 // pieces of work that wait for their part
}

// Usage returns what the budget is used for; nothing if b is nil.
func (b *Budget) Usage() Usage {
	if b == nil {
		return Usage{}
	}
	return Usage{Bytes: b.large.bytes + b.small.bytes + b.coming.bytes, Used: b.used.Load(), Most: b.most.Load(), Waiting: b.waiting.Load()}
}

// Take waits, in turn, until so many bytes are free, and takes them. Work that needs more than the whole budget gets all of it, and runs
// alone. The error is that of ctx. The caller holds no other part.
func (b *Budget) Take(ctx context.Context, bytes int64) (*Part, error) {
	if b == nil {
		return nil, ctx.Err()
	}
	from, n := b.from(bytes)
	b.waiting.Add(1)
	err := from.acquire(ctx, n)
	b.waiting.Add(-1)
	if err != nil {
		return nil, err
	}
	return b.part(from, n), nil
}

// TryTake takes so many bytes if they are free and nobody waits for any. ok is false if not.
func (b *Budget) TryTake(bytes int64) (p *Part, ok bool) {
	if b == nil {
		return nil, true
	}
	from, n := b.from(bytes)
	if !from.tryAcquire(n) {
		return nil, false
	}
	return b.part(from, n), true
}

// from returns where a part of so many bytes comes from, and how many it has.
func (b *Budget) from(bytes int64) (*pool, int64) {
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

// Part is a part of a [Budget] that a piece of work holds. A nil Part is one of a budget without a limit. A Part is safe for concurrent
// use.
type Part struct {
	*holding
	bounded bool // see [Part.Bounded]
}

// holding is what a part holds.
type holding struct {
	budget *Budget
	from   *pool

	mu     sync.Mutex // guards the fields below
	bytes  int64
	used   int64 // see [Part.Use]; more than bytes only if the part is all there is
	wanted int64 // the most that was to be used
	over   bool  // it was released: it grows no more, whoever still works for its holder
}

type partKey struct{}

// In returns a context with the part.
func (p *Part) In(ctx context.Context) context.Context { return context.WithValue(ctx, partKey{}, p) }

// PartIn returns the part of a context, nil for none.
func PartIn(ctx context.Context) *Part {
	p, _ := ctx.Value(partKey{}).(*Part)
	return p
}

// Grow takes so many bytes more if they are free and nobody waits for any. It never waits. A part of at most [Small] bytes does not grow
// beyond that. A part that has all that large work may have grows all the same: it runs alone.
func (p *Part) Grow(bytes int64) bool {
	if p == nil {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.grow(bytes)
}

// Bounded returns the same part for work that can be split: it never has more than all that large work may have.
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

// Use counts so many bytes of the part as used; below 0, as used no more. If the part has too few, it grows. Use reports false, and counts
// nothing, if it does not.
func (p *Part) Use(bytes int64) bool {
	if p == nil {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.use(p.used + bytes)
}

// SetUsed counts so many bytes of the part as used, and no others, by the rule of Use.
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

// Spare lets the part grow until it has so many bytes beside those that are used. It reports false if it does not.
func (p *Part) Spare(bytes int64) bool {
	if p == nil {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.grow(p.used + bytes - p.bytes)
}

// Used returns how many bytes are used.
func (p *Part) Used() int64 {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}

// Wanted returns the most that was used, or was to be: after [ErrFull], its holder needs more than that.
func (p *Part) Wanted() int64 {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.wanted
}

// Keep gives back all but so many bytes, and never takes any. If more is in use, the caller has let go of the difference: it counts as used no
// more. A part of the large pool stays in that pool, however few bytes it keeps.
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

// Release gives all back, and ends the part. Once more does nothing.
func (p *Part) Release() {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	p.Keep(0)
}
