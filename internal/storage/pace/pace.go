// Package pace decides how many requests to have under way at once: more while
// throughput grows with them, fewer when the service throttles.
//
// A [Pace] is for one account, a [Partitions] for the partitions of one table:
// the service has a target for each (Microsoft Learn, "Scalability and
// performance targets for Table storage"), and its answer does not say which one was
// exceeded. If only one partition throttles, that partition is slowed down;
// otherwise the account is.
//
// A service may also refuse a few requests whatever the load. So a Pace goes by the share of
// requests that are refused. If the share rises, it halves the load on trial. If
// fewer requests are refused then, or nearly as many answered, the load was too high. Otherwise the share is the
// floor: the load comes back, and a share near the floor no longer counts. Before a high floor is believed, the load is
// halved once more: a service that takes bursts answers more before a trial than in it.
//
// A partition that throttles gets a limit in rows a second: nine tenths of what it answered
// while it throttled. The limit grows by 3 % in each second in which the partition is busy and
// refuses less than a twentieth. After ten calm measurements the growth doubles, up to sixteen
// times: from 10 rows a second to 200 it takes a minute in single rows, and ten minutes with
// a hundred a request.
//
// Processes know nothing of each other, and share a partition all the same. One weakness is
// known: a partition that refuses a tenth of all requests, however few are sent, is slowed down
// to 10 rows a second. A rule that sees this lets processes crowd each other out.
//
// The package is pure: callers report what has happened and how long it took.
package pace

import (
	"math"
	"time"
)

const (
	grow       = 1.5  // factor of a step up, until a limit of the service was found
	growLater  = 1.1  // and after it
	shrink     = 0.7  // factor of a step down
	worthwhile = 0.25 // a step up pays if throughput grows by this share of it
	lull       = 4    // measurements between two tries of a limit that did not pay
	calm       = 6    // measurements from a limit that was found to the next try
	rounds     = 2    // a measurement has so many requests for each slot
	minMeasure = 50 * time.Millisecond
)

// Of the share of requests that are refused:
const (
	enough         = 100         // a measurement has so many requests
	longest        = time.Second // or ends after this time
	tolerated      = 1.25        // times the floor is no reason for a trial
	deviations     = 3           // standard deviations more are none, either
	crowded        = 0.3         // a larger share needs no trial
	fallen         = 0.4         // a limit was exceeded if, in a trial, the share falls by at least this part of it
	spared         = 0.75        // or if, with half of the load, more than this part of the answers still come
	enoughRefusals = 10          // a trial goes on until so many refusals are to be expected
	high           = 0.05        // a share above it is believed to be the floor after a second trial
)

// Pace is the number of requests to have under way. Make it with [New].
type Pace struct {
	limit, most float64

	done    int // since the measurement of throughput began
	elapsed time.Duration
	busy    bool // the limit was reached since then

	limited  bool    // a limit of the service was found
	previous float64 // limit before the last step, if that was up; else 0
	rate     float64 // requests a second at that limit
	wait     int     // measurements before the next step up

	counted  float64 // requests since the measurement of refusals began
	refused  float64 // of them
	counting time.Duration
	stale    int     // requests to leave out: they may have been sent before the last step down
	floor    float64 // share of requests that the service refuses whatever the load
	trial    float64 // limit before the trial that is under way; 0 if none is
	before   float64 // share of requests refused before it, at least
	served   float64 // requests answered a second before it
	twice    bool    // it is the second trial
	warming  bool    // no measurement of refusals has ended yet: the first rate is too low, before the first answers come
}

// Seen is what has happened since the last call of [Pace.Observe].
type Seen struct {
	Elapsed   time.Duration
	Done      int  // requests that ended
	Refused   int  // answers by which the account may have asked for less load
	Waits     bool // one of them said how long to wait
	Saturated bool // as many requests as allowed were under way at some moment
}

// New returns a pace that begins with start requests under way and never has more than
// most.
func New(start, most int) *Pace {
	return &Pace{limit: float64(min(start, most)), most: float64(most), warming: true}
}

// Limit returns how many requests to have under way, at least 1. A refused request is not under way
// while it waits.
func (p *Pace) Limit() int { return max(1, int(p.limit)) }

// Observe adjusts the limit. It reports whether a measurement of refusals has ended.
func (p *Pace) Observe(s Seen) (measured bool) {
	p.done += s.Done
	p.elapsed += s.Elapsed
	p.busy = p.busy || s.Saturated
	switch {
	case s.Waits:
		p.found(shrink)
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

// count measures refusals. It reports whether the measurement has ended.
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

// judge decides by the share of requests refused whether the limit is too high.
func (p *Pace) judge() {
	share := p.refused / max(1, p.counted)
	served := (p.counted - p.refused) / p.counting.Seconds()
	floor, before := p.floor*p.counted, p.before*p.counted // refusals to expect
	many := p.refused > tolerated*floor+deviations*math.Sqrt(max(1, floor))
	switch {
	case many && share > crowded:
		p.found(shrink)
	case p.trial > 0 && (served > spared*p.served || p.refused+math.Sqrt(before) <= (1-fallen)*before):
		p.found(1)
	case p.trial > 0 && !p.twice && share > high:
		p.twice = true
		p.halve(served)
	case p.trial > 0:
		p.limit, p.trial, p.twice, p.floor = p.trial, 0, false, share
		p.limited = false // what was found before may have been chance
		p.reset()
	case many:
		if p.warming {
			served = math.Inf(1)
		}
		p.trial = p.limit
		p.halve(served)
	default:
		p.floor = min(p.floor, (7*p.floor+share)/8) // it may have become better
	}
	p.warming = false
}

// halve begins a trial with about half of the load. So far, the service has answered served requests a second.
func (p *Pace) halve(served float64) {
	p.before, p.served = (p.refused-math.Sqrt(p.refused))/p.counted, served
	p.lower(shrink * shrink)
}

// found notes a limit of the service, and takes a step down by a factor. What was refused before
// may have been refused for the load: that shows no floor.
func (p *Pace) found(factor float64) {
	p.limited, p.trial, p.twice, p.previous, p.wait, p.floor = true, 0, false, 0, calm, 0
	p.lower(factor)
}

// lower takes a step down by a factor, and begins all measurements anew.
func (p *Pace) lower(factor float64) {
	p.stale = p.Limit()
	p.limit = max(1, p.limit*factor)
	p.counted, p.refused, p.counting = 0, 0, 0
	p.reset()
}

// measure decides about the limit by its rate in requests a second.
func (p *Pace) measure(rate float64) {
	if !p.busy { // something else limits the rate
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
