// Package pace decides how many requests to make concurrently. It raises the number as long as throughput grows, and lowers
// the number when the service throttles.
//
// A [Pace] is for one account, and a [Partitions] for the partitions of one table. The service has one target for an account
// and another for a partition (Microsoft Learn, "Scalability and performance targets for Table storage"). When the service
// throttles a request, its answer does not say which target was exceeded. If only one partition throttles, that partition is
// slowed down. Otherwise the account is slowed down.
//
// A service may also refuse a few requests at any load. So a Pace measures the share of refused requests. If the share
// rises, the Pace halves the load for a trial. If the trial has a clearly lower share of refusals, or nearly as many
// answers as before, the old load was too high. Otherwise the load returns to its old value, and the trial's share of
// refusals becomes the *floor*. While the share stays near the floor, the Pace starts no further trial. A high share
// becomes the floor only after a second trial. The first trial can mislead: if the service accepted a short burst of
// requests before this trial, the trial may show no difference.
//
// A partition that throttles gets a limit in rows per second. The limit is nine tenths of the rate at which the partition answered rows while it
// throttled. The limit grows by 3 % in each second in which the partition is busy and refuses less than a twentieth of the requests. After every
// ten measurements without throttling, this growth doubles, up to 48 %. With one row per request, the limit takes a minute to rise from 10 to 200
// rows per second. With a hundred rows per request, the same rise takes ten minutes.
//
// Several processes may use a partition without knowledge of each other. The rules have one known weakness: a partition that refuses a tenth of all
// requests at any load is slowed down to 10 rows per second. Any rule without this weakness would let one process use up the rate of all other
// processes.
//
// The package does no I/O and reads no clock: callers report events and times.
package pace

import (
	"math"
	"time"
)

const (
	grow       = 1.5  // until a limit of the service is found, each increase multiplies the pace's limit by this factor, but adds at least 1
	growLater  = 1.1  // after a limit of the service was found, each increase multiplies the pace's limit by this factor, but adds at least 1
	shrink     = 0.7  // factor of a decrease
	worthwhile = 0.25 // an increase of the limit by 10 % is worthwhile if it raises the throughput by at least 2.5 %
	lull       = 4    // the number of measurements between an increase that was not worthwhile and the next increase
	calm       = 6    // after a limit of the service was found: the number of measurements before the next increase
	rounds     = 2    // a measurement has at least rounds*limit requests
	minMeasure = 50 * time.Millisecond
)

// Constants for the share of refused requests:
const (
	enough         = 100         // minimum number of requests in a measurement
	longest        = time.Second // a measurement ends after this time at the latest
	tolerated      = 1.25        // a trial begins if the share of refusals exceeds tolerated*floor by more than chance explains; see deviations
	deviations     = 3           // if refusals exceed the expected number by at most this number of standard deviations, the excess counts as chance
	crowded        = 0.3         // if the share of refusals is great enough for a trial (see `tolerated`), and is also greater than this, the limit falls without a trial
	fallen         = 0.4         // the old load was too high if the trial reduces the share of refusals by at least this fraction
	spared         = 0.75        // the old load was too high if a trial with half the load gets more than this fraction of the old load's answers per second
	enoughRefusals = 10          // if the share of refusals does not change, about this number of a trial's requests are refused
	high           = 0.05        // a greater share of refusals becomes the floor (see the package comment) only after a second trial
)

// Pace adjusts the number of requests to make concurrently. Make it with [New].
type Pace struct {
	limit, most float64

	done    int // requests since the measurement of throughput began
	elapsed time.Duration
	busy    bool // the limit was reached since the measurement of throughput began

	limited  bool    // a limit of the service was found
	previous float64 // limit before the last increase; 0 if there is no increase to judge
	rate     float64 // requests per second at the previous limit
	wait     int     // measurements before the next increase

	counted  float64 // requests since the measurement of refusals began
	refused  float64 // refused requests since the measurement of refusals began
	counting time.Duration
	stale    int     // requests to ignore, because they may have been sent before the last decrease
	floor    float64 // share of requests that the service refuses at any load
	trial    float64 // limit before the current trial; 0 if there is no trial
	before   float64 // share of requests that were refused before the trial, minus the standard error of this share
	served   float64 // requests answered per second before the trial
	twice    bool    // the current trial is the second one
	warming  bool    // true during the first measurement of refusals, which shows too low a rate, because the first answers take some time to arrive
}

// Seen counts the events since the last call of [Pace.Observe].
type Seen struct {
	Elapsed   time.Duration
	Done      int  // requests that ended
	Refused   int  // answers that may mean that the account is overloaded
	Waits     bool // one of the refusing answers had a Retry-After
	Saturated bool // the number of concurrent requests reached the limit at some moment
}

// New returns a pace. The arguments are the initial and the maximum number of concurrent requests.
func New(start, most int) *Pace {
	return &Pace{limit: float64(min(start, most)), most: float64(most), warming: true}
}

// Limit returns how many requests to make concurrently, at least 1. A request that waits after a refusal does not count.
func (p *Pace) Limit() int { return max(1, int(p.limit)) }

// Observe adjusts the limit. The result `measured` is true if a measurement of the share of refused requests has ended. An answer
// with a Retry-After also ends the measurement.
func (p *Pace) Observe(s Seen) (measured bool) {
	p.done += s.Done
	p.elapsed += s.Elapsed
	p.busy = p.busy || s.Saturated
	switch {
	case s.Waits:
		p.recordLimit(shrink)
		return true
	case p.count(s):
		p.judge()
		p.counted, p.refused, p.counting = 0, 0, 0
		measured = true
	}
	if p.trial == 0 && p.elapsed >= minMeasure && float64(p.done) >= rounds*p.limit {
		p.measure(float64(p.done) / p.elapsed.Seconds())
		p.reset()
	}
	return measured
}

func (p *Pace) reset() { p.done, p.elapsed, p.busy = 0, 0, false }

// count adds s to the measurement of refusals, and reports whether the measurement has ended.
func (p *Pace) count(s Seen) bool {
	if p.stale > 0 {
		p.stale -= s.Done + s.Refused
		return false
	}
	p.counted += float64(s.Done + s.Refused)
	p.refused += float64(s.Refused)
	p.counting += s.Elapsed
	want := max(enough, rounds*p.limit)
	if p.trial > 0 {
		want = max(want, enoughRefusals/p.before)
	}
	return p.counting >= longest || p.counted >= want
}

// judge decides from the share of refused requests whether the limit is too high.
func (p *Pace) judge() {
	share := p.refused / max(1, p.counted)
	served := (p.counted - p.refused) / p.counting.Seconds()
	floor, before := p.floor*p.counted, p.before*p.counted // expected numbers of refusals
	many := p.refused > tolerated*floor+deviations*math.Sqrt(max(1, floor))
	switch {
	case many && share > crowded:
		p.recordLimit(shrink)
	case p.trial > 0 && (served > spared*p.served || p.refused+math.Sqrt(before) <= (1-fallen)*before):
		p.recordLimit(1)
	case p.trial > 0 && !p.twice && share > high:
		p.twice = true
		p.halve(served)
	case p.trial > 0:
		p.limit, p.trial, p.twice, p.floor = p.trial, 0, false, share
		p.limited = false // the refusals that seemed to show a limit may have been random
		p.reset()
	case many:
		if p.warming {
			served = math.Inf(1)
		}
		p.trial = p.limit
		p.halve(served)
	default:
		p.floor = min(p.floor, (7*p.floor+share)/8) // the service may refuse a smaller share than before
	}
	p.warming = false
}

// halve begins a trial with about half of the load. `served` is the number of requests per second that the service did
// not refuse before the trial. If this number is unknown, `served` is infinite.
func (p *Pace) halve(served float64) {
	p.before, p.served = (p.refused-math.Sqrt(p.refused))/p.counted, served
	p.lower(shrink * shrink)
}

// recordLimit records that a limit of the service was found, and multiplies the Pace's limit by `factor`. The floor
// becomes 0, because the load may have caused the earlier refusals.
func (p *Pace) recordLimit(factor float64) {
	p.limited, p.trial, p.twice, p.previous, p.wait, p.floor = true, 0, false, 0, calm, 0
	p.lower(factor)
}

// lower multiplies the limit by `factor` and restarts all measurements.
func (p *Pace) lower(factor float64) {
	p.stale = p.Limit()
	p.limit = max(1, p.limit*factor)
	p.counted, p.refused, p.counting = 0, 0, 0
	p.reset()
}

// measure decides whether to change the limit. `rate` is the throughput at the current limit, in requests per second.
func (p *Pace) measure(rate float64) {
	if !p.busy { // the limit was not reached, so something else limits the rate
		return
	}
	if p.previous > 0 {
		gained, paid := rate/p.rate-1, p.limit/p.previous-1
		if gained < worthwhile*paid {
			p.limit, p.previous, p.wait = p.previous, 0, lull
			return
		}
	}
	if p.wait > 0 {
		p.wait--
		return
	}
	factor := grow
	if p.limited {
		factor = growLater
	}
	if up := min(p.most, max(p.limit+1, p.limit*factor)); up > p.limit {
		p.previous, p.rate, p.limit = p.limit, rate, up
	}
}
