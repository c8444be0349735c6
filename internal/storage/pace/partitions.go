package pace

import (
	"math"
	"time"
)

// Partitions measures how many rows per second each throttling partition accepts, and limits the partition to a lower
// rate. A limit of concurrent requests would not help, because even a few concurrent requests can exceed a partition's
// rate. The zero value limits nothing.
type Partitions struct {
	limits map[string]*partition
	many   int // if there are more limits than this, idle limits are dropped
}

type partition struct {
	Limit      // limit of rows per second
	takes bool // the partition has answered a request since it was first throttled

	began    time.Time // beginning of the measurement
	answered int       // requests since the measurement began
	refused  int
	rows     float64 // rows of the answered requests

	calm int // measurements since the rate was last lowered
}

const (
	// target is the rate that Microsoft states for a partition, in rows per second. It is a partition's first limit. (Microsoft Learn,
	// "Scalability and performance targets for Table storage")
	target     = 2000
	lowest     = 10    // rows per second
	refusal    = 0.05  // if a larger share of the requests is refused, the limit is lowered
	below      = 0.9   // a throttling partition's limit is this fraction of the rate that it accepts
	growth     = 0.03  // growth per second, as a fraction of the rate, while nothing is refused
	mostGrowth = 0.007 // maximum growth for each measured request, as a fraction of the rate
	used       = 0.5   // the rate grows only if at least this share of the rate was used
	settled    = 10    // each time that this number of measurements have passed without throttling, the growth doubles
	mostSpeed  = 16    // all doublings together multiply the growth by at most this factor

	measured     = time.Second      // a measurement takes at least this long
	measuredMost = 10               // number of requests that suffices for a measurement
	patient      = 10 * time.Second // a measurement with fewer requests lasts up to this long
	idle         = time.Minute      // a partition that is idle for longer may be dropped
)

// Wait returns how long a request to the partition must wait, or 0 if the request may be sent now.
func (p *Partitions) Wait(key string, now time.Time) time.Duration {
	l, ok := p.limits[key]
	if !ok {
		return 0
	}
	return l.Wait(now)
}

// Started records that a request with the given number of rows is sent.
func (p *Partitions) Started(key string, rows int, now time.Time) {
	if l, ok := p.limits[key]; ok {
		l.Use(float64(rows), now)
	}
}

// Throttled notes that the service has throttled a request with the given number of rows. It returns the pause before the
// repetition. Different requests get different pauses, so that they are not all repeated at the same time. After a
// partition's first throttling, Throttled returns 0 until the partition answers a request. Until then, the account's
// limit may be the cause of the throttling, instead of the partition's limit.
func (p *Partitions) Throttled(key string, rows int, now time.Time) time.Duration {
	l, ok := p.limits[key]
	if !ok {
		if p.limits == nil {
			p.limits = map[string]*partition{}
		}
		p.forget(now)
		l = &partition{Limit: Limit{rate: target, ahead: ahead, filled: now}, began: now}
		p.limits[key] = l
	}
	l.refused++
	l.measure(now)
	l.fill(now)
	if !l.takes {
		return 0
	}
	pause := l.untilFree()
	l.budget -= float64(rows)
	return pause
}

// Answered must be called after a successful request. The argument `expected` is the number of rows that was passed to Started,
// and the argument `rows` is the actual number.
func (p *Partitions) Answered(key string, expected, rows int, now time.Time) {
	if l, ok := p.limits[key]; ok {
		l.fill(now)
		l.budget += float64(expected - rows)
		l.takes = true
		l.answered++
		l.rows += float64(rows)
		l.measure(now)
	}
}

// forget drops idle partitions if there are many limits.
func (p *Partitions) forget(now time.Time) {
	if len(p.limits) < p.many {
		return
	}
	for key, l := range p.limits {
		if now.Sub(l.filled) > idle {
			delete(p.limits, key)
		}
	}
	p.many = max(1000, 2*len(p.limits))
}

// measure adjusts the rate, based on the requests since the last measurement. While a partition throttles, the measured rate
// of successful rows is the highest rate that the partition accepts. Requests that are under way during the adjustment may
// still be throttled, so the next measurement begins after these requests.
//
// A few requests may be throttled by chance, so a measurement continues until the share of refusals is clear. A
// partition that has not throttled for a long time accepts much more than its limit, so its limit grows faster.
func (l *partition) measure(now time.Time) {
	took := now.Sub(l.began)
	n := l.answered + l.refused
	switch {
	case took < 0:
		l.answered, l.refused, l.rows = 0, 0, 0
		return
	case took < measured || n < measuredMost && took < patient || l.answered == 0: // too few answers to decide
		return
	}
	next := now
	tooMany := refusal * float64(n)
	switch {
	case float64(l.refused) > tooMany:
		if float64(l.refused) <= tooMany+math.Sqrt(tooMany) && took < patient {
			return
		}
		l.calm = 0
		l.fill(now)
		// One more request may be almost complete, so the rows of an average request are added. This matters if requests are few and large.
		rows := l.rows * (1 + 1/float64(l.answered))
		l.rate = max(lowest, l.rate/2, min(below*rows/took.Seconds(), l.rate))
		next = now.Add(min(l.untilFree(), patient))
	case l.rows > used*l.rate*took.Seconds():
		speed := min(mostSpeed, math.Pow(2, float64(l.calm/settled)))
		l.calm++
		l.rate *= 1 + speed*min(growth*took.Seconds(), mostGrowth*float64(n))
	}
	l.began, l.answered, l.refused, l.rows = next, 0, 0, 0
}
