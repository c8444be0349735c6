// Package pace decides how many requests to have under way at once: more while
// that pays, fewer when the service says that it is busy.
//
// A [Pace] is for one account, a [Partitions] for the partitions of one table:
// the service has a target for each (Microsoft Learn, "Scalability and
// performance targets for Table storage"), and the answer does not tell which was
// missed. Throttling that befalls one partition alone slows down that partition;
// anything else slows down the account.
//
// It is pure: callers say what has happened and how long it took.
package pace

import "time"

const (
	grow       = 1.5  // factor of a step up, until the first throttling
	growLater  = 1.1  // and after it
	shrink     = 0.7  // factor of a step down
	worthwhile = 0.25 // share of a step up that must come back as throughput
	patience   = 4    // measurements between two tries at a limit that did not pay
	calm       = 6    // measurements from a throttling to the next try
	rounds     = 2    // requests that each slot has finished before a measurement counts
)

// minMeasure is the shortest time that is measured.
const minMeasure = 50 * time.Millisecond

// Pace is the number of requests to have under way. Make it with [New].
type Pace struct {
	limit, most float64

	done    int // since the measurement began
	elapsed time.Duration
	busy    bool // the limit was reached in that time

	throttled bool    // ever
	previous  float64 // limit before the last step up, 0 if the last step was none
	rate      float64 // requests a second at that limit
	wait      int     // measurements before the next step up
}

// New returns a pace that begins with the given number of requests, and has at most
// another number under way.
func New(start, most int) *Pace {
	return &Pace{limit: float64(min(start, most)), most: float64(most)}
}

// Fixed returns a pace of that many requests from the start on. Only throttling
// lowers it.
func Fixed(limit int) *Pace { return &Pace{limit: float64(limit), most: float64(limit)} }

// Limit returns how many requests to have under way, at least 1.
func (p *Pace) Limit() int { return max(1, int(p.limit)) }

// Observe tells what happened in the time since the last call: how many requests
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

// measure decides by the rate, in requests a second, that the limit has given.
func (p *Pace) measure(rate float64) {
	if !p.busy { // it isn't the limit that limits
		return
	}
	if p.previous > 0 {
		gained, paid := rate/p.rate-1, p.limit/p.previous-1
		if gained < worthwhile*paid {
			p.limit, p.previous, p.wait = p.previous, 0, patience
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
