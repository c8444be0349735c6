package sweep

import (
	"sync/atomic"

	"tablesweep/internal/storage"
)

// Share makes concurrent sweeps of one process share their limits. Workers, Memory and MaxRows of [Options] apply to all these sweeps together, and
// each sweep gets an equal part of the workers and the memory. Make a Share with [NewShare].
type Share struct {
	reads, writes, others *storage.Limit // limits on rows per second; the field `others` is for a comparison's destination
	source, target        pool
	sweeps                atomic.Int64 // the number of running sweeps
}

// NewShare returns a [Share] with the given limits on workers and on rows per second. 0 rows per second means no limit.
func NewShare(workers, maxRows int) *Share {
	s := &Share{reads: storage.NewLimit(maxRows), writes: storage.NewLimit(maxRows), others: storage.NewLimit(maxRows)}
	for _, p := range []*pool{&s.source, &s.target} {
		p.most, p.share = int64(workers), s
	}
	return s
}

// Others returns the limit on the rows per second that a comparison reads from its destination.
func (o Options) Others() *storage.Limit {
	if o.Share != nil {
		return o.Share.others
	}
	return storage.NewLimit(o.MaxRows)
}

func (s *Share) sweepCount() int { return int(max(1, s.sweeps.Load())) }

// pool limits the concurrent requests of all sweeps together. The requests to the source have one pool, and the requests to the target have another
// pool.
type pool struct {
	share *Share
	most  int64
	begun atomic.Int64
}

// part returns how many concurrent requests one sweep may make.
func (p *pool) part() int { return max(1, int(p.most)/p.share.sweepCount()) }

// take reserves a request. If the pool has no free request, take returns false. For example, this happens to a new sweep until the other sweeps make
// fewer requests.
func (p *pool) take() bool {
	if p.begun.Add(1) > p.most {
		p.begun.Add(-1)
		return false
	}
	return true
}

func (p *pool) give() { p.begun.Add(-1) }
