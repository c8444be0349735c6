package sweep

import (
	"math"
	"sync/atomic"

	"tablesweep/internal/storage"
)

// Share lets sweeps of one process that run at the same time keep to their limits together: Workers, Buffer and
// MaxRows of [Options] hold for all of them, and each gets an equal part of the workers and the buffer. Make it with
// [NewShare]. A nil one shares nothing.
type Share struct {
	reads, writes, others *storage.Limit // of rows; others are those of a comparison's destination
	source, target        pool
	sweeps                atomic.Int64 // under way
}

// NewShare returns what sweeps by so many workers share, and so many rows a second, 0 for any number.
func NewShare(workers, maxRows int) *Share {
	s := &Share{reads: storage.NewLimit(maxRows), writes: storage.NewLimit(maxRows), others: storage.NewLimit(maxRows)}
	for _, p := range []*pool{&s.source, &s.target} {
		p.most, p.share = int64(workers), s
	}
	return s
}

// Others returns the limit of rows a second that are read from the second place of a comparison.
func (o Options) Others() *storage.Limit {
	if o.Share != nil {
		return o.Share.others
	}
	return storage.NewLimit(o.MaxRows)
}

// join makes a run one of those that share.
func (s *Share) join(r *run) {
	r.reads, r.writes = storage.NewLimit(r.options.MaxRows), storage.NewLimit(r.options.MaxRows)
	if s == nil {
		return
	}
	s.sweeps.Add(1)
	r.reads, r.writes = s.reads, s.writes
	r.pacer.share, r.pacer.source.pool, r.pacer.target.pool = s, &s.source, &s.target
}

// leave ends what join began.
func (s *Share) leave() {
	if s != nil {
		s.sweeps.Add(-1)
	}
}

// among returns how many sweeps there are.
func (s *Share) among() int {
	if s == nil {
		return 1
	}
	return int(max(1, s.sweeps.Load()))
}

// pool is what sweeps may have under way at one end. A nil one has room for any number.
type pool struct {
	share *Share
	most  int64
	begun atomic.Int64
}

// part is how much of it is for one sweep.
func (p *pool) part() int {
	if p == nil {
		return math.MaxInt
	}
	return max(1, int(p.most)/p.share.among())
}

// take takes a place. It reports false if none is free: a sweep that has just begun waits until the others have
// come down to their part.
func (p *pool) take() bool {
	if p == nil {
		return true
	}
	if p.begun.Add(1) > p.most {
		p.begun.Add(-1)
		return false
	}
	return true
}

func (p *pool) give() {
	if p != nil {
		p.begun.Add(-1)
	}
}
