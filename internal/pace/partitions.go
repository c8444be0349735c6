package pace

import (
	"math"
	"time"
)

// Partitions finds out how many rows a second the partitions take that were throttled,
// and stays below that. Its zero value limits none. It does not limit how many requests are under
// way: a partition refuses what is too much for it at once, however few ask.
type Partitions struct {
	limits map[string]*partition
	many   int // limits from which on idle ones are looked for
}

type partition struct {
	rate   float64   // rows a second
	budget float64   // rows that may be sent at once; below 0, they have been sent in advance
	filled time.Time // when budget was right
	takes  bool      // it has answered a request

	began    time.Time // of the measurement
	answered int       // requests since then
	refused  int
	rows     float64 // of the requests answered

	calm int // measurements since the last one that lowered the rate
}

const (
	// target is what a partition takes, in rows a second: where the search begins.
	// (Microsoft Learn, "Scalability and performance targets for Table storage")
	target     = 2000
	lowest     = 10                     // rows a second
	ahead      = 100 * time.Millisecond // the budget is at most what this time brings
	refusal    = 0.05                   // share of requests that may be refused
	below      = 0.9                    // of what a partition that refuses takes
	growth     = 0.03                   // of the rate, a second, while nothing is refused
	mostGrowth = 0.007                  // of the rate, for each request measured
	used       = 0.5                    // share of the rate that must have been used before it grows
	settled    = 10                     // calm measurements after which the growth doubles, each time
	mostSpeed  = 16                     // times the growth, at most

	measured     = time.Second // a measurement takes at least this long
	measuredMost = 10          // and has as many requests, or takes
	patient      = 10 * time.Second
	idle         = time.Minute // a partition that is not used for so long is forgotten
)

// Wait returns how long a request to the partition must wait, 0 if it may be sent.
func (p *Partitions) Wait(key string, now time.Time) time.Duration {
	l, ok := p.limits[key]
	if !ok {
		return 0
	}
	l.fill(now)
	if l.budget > 0 {
		return 0
	}
	return l.untilFree()
}

// untilFree returns when the budget will be above 0.
func (l *partition) untilFree() time.Duration {
	return max(time.Millisecond, time.Duration((1-l.budget)/l.rate*float64(time.Second)))
}

// Started tells that a request of so many rows is sent.
func (p *Partitions) Started(key string, rows int, now time.Time) {
	if l, ok := p.limits[key]; ok {
		l.fill(now)
		l.budget -= float64(rows)
	}
}

// Throttled tells that the partition refused a request of so many rows. It returns how long to
// wait before the request is sent again, so that it doesn't meet all others that were refused. It returns 0
// if it can't tell: the partition has taken nothing since then, and the account may be what is busy.
func (p *Partitions) Throttled(key string, rows int, now time.Time) time.Duration {
	l, ok := p.limits[key]
	if !ok {
		if p.limits == nil {
			p.limits = map[string]*partition{}
		}
		p.forget(now)
		l = &partition{rate: target, filled: now, began: now}
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

// Answered tells that a request ended, which was taken for so many rows and had others.
func (p *Partitions) Answered(key string, thought, rows int, now time.Time) {
	if l, ok := p.limits[key]; ok {
		l.fill(now)
		l.budget += float64(thought - rows)
		l.takes = true
		l.answered++
		l.rows += float64(rows)
		l.measure(now)
	}
}

// forget drops idle partitions, if there are many.
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

func (l *partition) fill(now time.Time) {
	if d := now.Sub(l.filled).Seconds(); d > 0 {
		l.budget = min(max(1, l.rate*ahead.Seconds()), l.budget+d*l.rate)
		l.filled = now
	}
}

// measure sets the rate by what came of the requests since the last measurement. What a
// partition takes that refuses is what it answers. After that, requests that were to be sent
// again by the old rate may still be refused: it begins when they are through.
//
// A few requests may be refused by chance, so that a measurement goes on until it can tell. A rate
// that has been calm for long is far below what the partition takes, and grows faster.
func (l *partition) measure(now time.Time) {
	took := now.Sub(l.began)
	n := l.answered + l.refused
	switch {
	case took < 0:
		l.answered, l.refused, l.rows = 0, 0, 0
		return
	case took < measured || n < measuredMost && took < patient || l.answered == 0: // silence tells nothing
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
		l.rate = max(lowest, l.rate/2, min(below*l.rows/took.Seconds(), l.rate))
		next = now.Add(min(l.untilFree(), patient))
	case l.rows > used*l.rate*took.Seconds():
		speed := min(mostSpeed, math.Pow(2, float64(l.calm/settled)))
		l.calm++
		l.rate *= 1 + speed*min(growth*took.Seconds(), mostGrowth*float64(n))
	}
	l.began, l.answered, l.refused, l.rows = next, 0, 0, 0
}
