package sweep

import (
	"sync/atomic"

	"tablesweep/internal/storage"
)

// Share makes concurrent sweeps of one process share their limits. Workers, Memory and
// MaxRows of [Options] apply to all of them together, and each gets an equal part of the workers and the memory. Make it with
// [NewShare]. A sweep without one has its own.
type Share struct {
	reads, writes, others *storage.Limit // of rows; others is for a comparison's destination
	source, target        pool
	sweeps                atomic.Int64 // running
}

// NewShare returns the share of sweeps that have the given number of workers and rows a second together; 0 rows means no limit.
func NewShare(workers, maxRows int) *Share {
	s := &Share{reads: storage.NewLimit(maxRows), writes: storage.NewLimit(maxRows), others: storage.NewLimit(maxRows)}
	for _, p := range []*pool{&s.source, &s.target} {
		p.most, p.share = int64(workers), s
	}
	return s
}

// Others returns the limit of rows a second for the second place of a comparison.
func (o Options) Others() *storage.Limit {
	if o.Share != nil {
		return o.Share.others
	}
	return storage.NewLimit(o.MaxRows)
}

// among returns how many sweeps share the limits.
func (s *Share) among() int { return int(max(1, s.sweeps.Load())) }

// pool bounds how many requests sweeps make at once to the source or to the target.
type pool struct {
	share *Share
	most  int64
	begun atomic.Int64
}

// part returns how many requests one sweep may make.
func (p *pool) part() int { return max(1, int(p.most)/p.share.among()) }

// take reserves a request. It reports false if none is free. A sweep that has just begun waits until the others have
// reduced their requests to their part.
func (p *pool) take() bool {
	if p.begun.Add(1) > p.most {
		p.begun.Add(-1)
		return false
	}
	return true
}

func (p *pool) give() { p.begun.Add(-1) }
