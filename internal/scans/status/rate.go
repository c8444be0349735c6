package status

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/split/scan"
)

// The phases of a running scan.
const (
	starting  = "starting"  // no step is done yet
	Working   = "working"   // steps are being done
	waiting   = "waiting"   // for a connection whose requests fail, or for memory
	throttled = "throttled" // the storage throttled at least a fifth of the last minute's requests
	stalled   = "stalled"   // steps are pending, and none was done for two minutes
)

const (
	rateTime       = time.Minute
	lateTime       = 20 * time.Second // while the host adds instances, the rate over lateTime is higher than the rate over rateTime
	steady         = 1.75             // if the rates over the last minute and over lateTime differ by a larger factor, there is no estimate
	estimableShare = 0.25             // there is an estimate once this share of the work is done, because the host has then added most instances
	idleTime       = 15 * time.Second // if no step was done for this time, the rate is unknown
	stalledTime    = 2 * time.Minute
	throttling     = 0.2 // share of throttled requests
)

// rates describes a scan's recent progress.
type rates struct {
	rate, late float64       // rows per second over the last minute, and over lateTime
	lately     ledger.Point  // the last minute's work
	ran        time.Duration // time since the attempt began
	idle       time.Duration // time since the last step was done, or since the attempt began if that is later
}

// ratesOf computes rates from points, which record the work in each interval of time. The argument `last` is the time at
// which the last step was done. An instance knows the service's time only to the second, so the recorded start may be
// outside the first interval. In this case, ratesOf moves the start into the interval.
func ratesOf(s ledger.Scan, points []ledger.Point, interval time.Duration, last, now time.Time) rates {
	var p rates
	if len(points) == 0 {
		return p
	}
	began := s.Resumed
	if began.IsZero() {
		began = later(points[0].At, earlier(s.Started, points[0].At.Add(interval)))
	}
	p.ran = max(0, now.Sub(began))
	p.idle = min(p.ran, max(0, now.Sub(last)))
	over := func(t time.Duration) (ledger.Point, float64) {
		t = min(p.ran, t)
		return worked(points, interval, began, now, t), max(1, t.Seconds())
	}
	lately, seconds := over(rateTime)
	p.lately, p.rate = lately, float64(lately.Rows)/seconds
	late, seconds := over(lateTime)
	p.late = float64(late.Rows) / seconds
	return p
}

// worked returns the sum of the work in a period. The period ends at the time `now`, and its length is the argument `since`.
// If an interval began before the period, its work counts in proportion: if a third of the interval's time lies in the
// period, a third of the interval's work counts. An interval that begins before `began`, the start of the attempt,
// counts as beginning at `began`. An interval that ends after `now` counts as ending at `now`.
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

func later(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

func earlier(times ...time.Time) time.Time { return slices.MinFunc(times, time.Time.Compare) }

// phase returns a scan's phase, and why the scan is waiting or throttled. The arguments `done` and `pending` are numbers of
// steps.
func (p rates) phase(done, pending int64, l Leased) (phase, cause string) {
	if l.waits(p.idle) {
		var causes []string
		for _, w := range l.Waiting {
			causes = append(causes, w.Connection+": "+w.Cause)
		}
		return waiting, strings.Join(causes, "; ")
	}
	requests, busy := p.lately.Requests+l.Requests, p.lately.Throttled+l.Throttled
	switch {
	case requests > 0 && float64(busy) >= throttling*float64(requests):
		return throttled, fmt.Sprintf("the storage throttles %.0f %% of the requests", 100*float64(busy)/float64(requests))
	case done == 0:
		return starting, ""
	case pending > 0 && p.idle >= stalledTime && l.Steps == 0:
		return stalled, ""
	}
	return Working, ""
}

// secondsLeft estimates a scan's remaining time. The arguments are the number of read rows, the number of pages that
// these rows fill, and the work ahead. The result is nil if hints do not cover the work ahead, if the scan has done
// little, or if the rate is unsteady.
func (p rates) secondsLeft(rows int64, pages float64, ahead scan.Outlook) *float64 {
	share, ok := ahead.Progress(pages)
	switch {
	case !ok || share < estimableShare || p.ran < rateTime || p.idle >= idleTime:
		return nil
	case p.rate <= 0 || p.rate > steady*p.late || p.late > steady*p.rate:
		return nil
	}
	seconds := float64(rows) * (1 - share) / share / p.rate
	return &seconds
}
