package pace

import "time"

// How long a budget fills: it holds at most what so long a time allows. That of a limit makes good for
// short pauses.
const (
	ahead      = 100 * time.Millisecond
	limitAhead = 250 * time.Millisecond
)

// Limit is a number of requests or rows a second. It is not safe for concurrent use.
//
// golang.org/x/time/rate has no such limit: how many rows a page has is known when it is there, and
// what it was thought to have too many of must be given back.
type Limit struct {
	rate   float64 // a second
	budget float64 // that may be used now; below 0, so much was used in advance
	ahead  time.Duration
	filled time.Time // when budget was last brought up to date
}

// NewLimit returns a limit of so many a second.
func NewLimit(perSecond float64) *Limit { return &Limit{rate: perSecond, ahead: limitAhead} }

// Wait returns how long to wait before some of the limit may be used, 0 if it may be used now.
func (l *Limit) Wait(now time.Time) time.Duration {
	l.fill(now)
	if l.budget > 0 {
		return 0
	}
	return l.untilFree()
}

// Use uses n of the limit. More than there is delays those who come later. With n below 0, so
// many are given back.
func (l *Limit) Use(n float64, now time.Time) {
	l.fill(now)
	l.budget -= n
}

// untilFree returns how long until the budget is 1, at least a millisecond. What is used next is at least one request or row,
// so a caller that came earlier would use it in advance.
func (l *Limit) untilFree() time.Duration {
	return max(time.Millisecond, time.Duration((1-l.budget)/l.rate*float64(time.Second)))
}

func (l *Limit) fill(now time.Time) {
	if d := now.Sub(l.filled).Seconds(); d > 0 {
		l.budget = min(max(1, l.rate*l.ahead.Seconds()), l.budget+d*l.rate)
		l.filled = now
	}
}
