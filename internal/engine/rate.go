package engine

import (
	"time"

	"tablesweep/internal/ledger"
)

// The phases of a running scan.
const (
	Starting  = "starting"  // no step is done yet
	Working   = "working"   // steps get done
	Throttled = "throttled" // they do, but the storage told a fifth of the last minute's requests to wait
	Stalled   = "stalled"   // steps are pending, and none got done for two minutes
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
	ran        time.Duration // since the scan began
	idle       time.Duration // since work was done, to the interval
}

// paceOf reckons from the work of intervals. All times are the service's.
func paceOf(points []ledger.Point, interval time.Duration, now time.Time) pace {
	var p pace
	if len(points) == 0 {
		return p
	}
	p.ran = max(0, now.Sub(points[0].At))
	p.idle = max(0, now.Sub(points[len(points)-1].At)-interval)
	lately := worked(points, interval, now, rateTime)
	p.rate = float64(lately.Rows) / max(1, min(p.ran, rateTime).Seconds())
	p.long = float64(worked(points, interval, now, longTime).Rows) / max(1, min(p.ran, longTime).Seconds())
	if lately.Requests > 0 {
		p.throttled = float64(lately.Throttled) / float64(lately.Requests)
	}
	return p
}

// worked sums up the work of a time. Of an interval that began before it, only the
// share that lies in it counts.
func worked(points []ledger.Point, interval time.Duration, now time.Time, since time.Duration) ledger.Point {
	var sum ledger.Point
	from := now.Add(-since)
	for _, p := range points {
		end := p.At.Add(interval)
		if !end.After(from) {
			continue
		}
		share := 1.0
		if p.At.Before(from) {
			share = float64(end.Sub(from)) / float64(interval)
		}
		sum.Rows += int64(share * float64(p.Rows))
		sum.Requests += int64(share * float64(p.Requests))
		sum.Throttled += int64(share * float64(p.Throttled))
	}
	return sum
}

// phase names the phase of a scan with so many steps.
func (p pace) phase(done, pending int64) string {
	switch {
	case done == 0:
		return Starting
	case pending > 0 && p.idle >= stalledTime:
		return Stalled
	case p.throttled >= throttling:
		return Throttled
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
