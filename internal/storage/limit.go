package storage

import (
	"context"
	"sync"
	"time"

	"tablesweep/internal/storage/pace"
)

// Limit is a maximum number of requests or rows per second, retries included. It is safe for concurrent use. A nil
// Limit limits nothing.
type Limit struct {
	turn chan struct{} // a lock: its holder waits for the limit, and the other requests wait for the lock

	mu     sync.Mutex // guards the fields below
	pace   *pace.Limit
	waited time.Time // when a request last had to wait
	page   float64   // average number of rows of the last queries; negative before the first query
}

// NewLimit returns a limit in requests or rows per second. If perSecond is 0, NewLimit returns nil.
func NewLimit(perSecond int) *Limit {
	if perSecond == 0 {
		return nil
	}
	return &Limit{turn: make(chan struct{}, 1), pace: pace.NewLimit(float64(perSecond)), page: -1}
}

// acquire waits until the limit's budget is positive, and subtracts n requests or rows from the budget. If `stop`
// is closed or ctx ends during the wait, acquire returns false.
func (l *Limit) acquire(ctx context.Context, n float64, stop <-chan struct{}) bool {
	if l == nil {
		return true
	}
	select {
	case l.turn <- struct{}{}:
	case <-stop:
		return false
	case <-ctx.Done():
		return false
	}
	defer func() { <-l.turn }()
	for {
		pause := l.tryAcquire(n)
		if pause == 0 {
			return true
		}
		if !(RequestOptions{Stop: stop}).wait(ctx, pause, nil) {
			return false
		}
	}
}

// tryAcquire subtracts n requests or rows from the budget, and returns 0. If the budget is used up, tryAcquire subtracts
// nothing, and returns how long to wait.
func (l *Limit) tryAcquire(n float64) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	pause := l.pace.Wait(now)
	if pause == 0 {
		l.pace.Use(n, now)
	} else {
		l.waited = now
	}
	return pause
}

// Binds reports whether a request recently had to wait for the limit.
func (l *Limit) Binds() bool {
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.waited) < 250*time.Millisecond
}

// Expects returns how many rows a query is expected to return. The argument `top` is the maximum number of rows.
func (l *Limit) Expects(top int) float64 {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.page < 0 {
		return float64(top)
	}
	return min(l.page, float64(top))
}

// observe records how many rows a query returned. `expected` is the number of rows that the query's tries have already
// subtracted from the limit.
func (l *Limit) observe(rows int, expected float64) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	const weight = 1. / 8
	if l.page < 0 {
		l.page = float64(rows)
	}
	l.page += weight * (float64(rows) - l.page)
	l.pace.Use(float64(rows)-expected, time.Now())
}
