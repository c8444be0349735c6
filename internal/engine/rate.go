package engine

import (
	"time"

	"tablesweep/internal/engine/ledger"
)

// The phases of a running scan.
const (
	starting  = "starting"  // no step is done yet
	Working   = "working"   // steps get done
	throttled = "throttled" // they do, but the storage told a fifth of the last minute's requests to wait
	stalled   = "stalled"   // steps are pending, and none got done for two minutes
)

const (
	rateTime    = time.Minute
	longTime    = 3 * time.Minute  // the rate over it must be about that of the last minute
	leastTime   = 30 * time.Second // a scan must have run for, until its rate says how long the rest takes
	steady      = 2.0              // how much both rates may differ
	stalledTime = 2 * time.Minute
	throttling  = 0.2 // share of requests
)

// pace is how a scan got on lately.
type pace struct {
	rate, long float64       // rows a second over the last minute, and over the last minutes
	throttled  float64       // share of the last minute's requests
	ran        time.Duration // since the scan's attempt began
	idle       time.Duration // since work was done, to the interval, or since the attempt began
}

// paceOf reckons from the work of intervals. All times are the service's, except when the attempt
// began: an instance's clock told that, and the first interval bounds it.
func paceOf(s ledger.Scan, points []ledger.Point, interval time.Duration, now time.Time) pace {
	var p pace
	if len(points) == 0 {
		return p
	}
	began := s.Resumed
	if began.IsZero() {
		began = later(points[0].At, earlier(s.Started, points[0].At.Add(interval)))
	}
	p.ran = max(0, now.Sub(began))
	p.idle = min(p.ran, max(0, now.Sub(points[len(points)-1].At)-interval))
	over := func(t time.Duration) (ledger.Point, float64) {
		t = min(p.ran, t)
		return worked(points, interval, began, now, t), max(1, t.Seconds())
	}
	lately, seconds := over(rateTime)
	p.rate = float64(lately.Rows) / seconds
	long, seconds := over(longTime)
	p.long = float64(long.Rows) / seconds
	if lately.Requests > 0 {
		p.throttled = float64(lately.Throttled) / float64(lately.Requests)
	}
	return p
}

// worked sums up the work of a time. Of an interval that began before it, only the
// share that lies in it counts. Nothing was done before the attempt began, nor after now.
func worked(points []ledger.Point, interval time.Duration, began, now time.Time, since time.Duration) ledger.Point {
	var sum ledger.Point
	from := now.Add(-since)
	for _, p := range points {
		begin, end := later(p.At, began), p.At.Add(interval)
		if !end.After(from) {
			continue
		}
		end = earlier(end, now)
		share := 1.0
		if begin.Before(from) {
			share = float64(end.Sub(from)) / float64(end.Sub(begin))
		}
		sum.Rows += int64(share * float64(p.Rows))
		sum.Requests += int64(share * float64(p.Requests))
		sum.Throttled += int64(share * float64(p.Throttled))
	}
	return sum
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// phase names the phase of a scan with so many steps.
func (p pace) phase(done, pending int64) string {
	switch {
	case done == 0:
		return starting
	case pending > 0 && p.idle >= stalledTime:
		return stalled
	case p.throttled >= throttling:
		return throttled
	}
	return Working
}

// left returns how many seconds a scan will take that has read so many rows, the given share of its
// work; nil if that can't be told: it has just begun, or goes now fast and now slowly.
func (p pace) left(rows int64, share float64) *float64 {
	if share <= 0 || p.rate <= 0 || p.ran < leastTime || p.rate > steady*p.long || p.long > steady*p.rate {
		return nil
	}
	seconds := float64(rows) * (1 - share) / share / p.rate
	return &seconds
}
