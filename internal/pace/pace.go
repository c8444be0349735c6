// Package pace decides how many requests to have under way at once: more while
// throughput grows with them, fewer when the service throttles.
//
// A [Pace] is for one account, a [Partitions] for the partitions of one table:
// the service has a target for each (Microsoft Learn, "Scalability and
// performance targets for Table storage"), and its answer does not say which one was
// exceeded. If only one partition throttles, that partition is slowed down;
// otherwise the account is.
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

import "time"

const (
	grow       = 1.5  // factor of a step up, until the first throttling
	growLater  = 1.1  // and after it
	shrink     = 0.7  // factor of a step down
	worthwhile = 0.25 // a step up pays if throughput grows by this share of it
	lull       = 4    // measurements between two tries of a limit that did not pay
	calm       = 6    // measurements from a throttling to the next try
	rounds     = 2    // a measurement has so many requests for each slot
)

// minMeasure is the shortest measurement.
const minMeasure = 50 * time.Millisecond

// Pace is the number of requests to have under way. Make it with [New].
type Pace struct {
	limit, most float64

	done    int // since the measurement began
	elapsed time.Duration
	busy    bool // the limit was reached since then

	throttled bool    // ever
	previous  float64 // limit before the last step, if that was up; else 0
	rate      float64 // requests a second at that limit
	wait      int     // measurements before the next step up
}

// New returns a pace that begins with start requests under way and never has more than
// most.
func New(start, most int) *Pace {
	return &Pace{limit: float64(min(start, most)), most: float64(most)}
}

// Limit returns how many requests to have under way, at least 1.
func (p *Pace) Limit() int { return max(1, int(p.limit)) }

// Observe reports the time since the last call: how many requests
// ended, whether as many as [Pace.Limit] were under way at some moment, and
// whether the account was throttled.
func (p *Pace) Observe(elapsed time.Duration, done int, saturated, throttled bool) {
	if throttled {
		p.limit = max(1, p.limit*shrink)
		p.throttled = true
		p.previous, p.wait = 0, calm
		p.reset()
		return
	}
	p.done += done
	p.elapsed += elapsed
	p.busy = p.busy || saturated
	if p.elapsed < minMeasure || float64(p.done) < rounds*p.limit {
		return
	}
	p.measure(float64(p.done) / p.elapsed.Seconds())
	p.reset()
}

func (p *Pace) reset() { p.done, p.elapsed, p.busy = 0, 0, false }

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
	if p.throttled {
		factor = growLater
	}
	if up := min(p.most, max(p.limit+1, p.limit*factor)); up > p.limit {
		p.previous, p.rate, p.limit = p.limit, rate, up
	}
}
