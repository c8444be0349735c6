package sweep

import (
	"sync/atomic"

	"tablesweep/internal/storage"
)

// Share lets sweeps of one process that run at the same time keep to their limits together: Workers, Memory and
// MaxRows of [Options] hold for all of them, and each gets an equal part of the workers and the memory. Make it with
// [NewShare]. A sweep without one has its own.
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

// among returns how many sweeps there are.
func (s *Share) among() int { return int(max(1, s.sweeps.Load())) }

// pool is what sweeps may have under way at one end.
type pool struct {
	share *Share
	most  int64
	begun atomic.Int64
}

// part is how much of it is for one sweep.
func (p *pool) part() int { return max(1, int(p.most)/p.share.among()) }

// take takes a place. It reports false if none is free: a sweep that has just begun waits until the others have
// come down to their part.
func (p *pool) take() bool {
	if p.begun.Add(1) > p.most {
		p.begun.Add(-1)
		return false
	}
	return true
}

func (p *pool) give() { p.begun.Add(-1) }
