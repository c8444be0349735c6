package pace

import "time"

// A budget that is not used grows to the number of requests or rows that the limit allows in the time `ahead`, or to 1 if
// this number is less than 1. A limit that [NewLimit] returns uses the longer time `limitAhead`, so a caller can catch up after
// a short pause.
const (
	ahead      = 100 * time.Millisecond
	limitAhead = 250 * time.Millisecond
)

// Limit is a number of requests or rows per second. It is not safe for concurrent use.
//
// A page's number of rows is known only after the answer. So a Limit, unlike golang.org/x/time/rate, lets the caller
// correct the budget.
type Limit struct {
	rate   float64 // per second
	budget float64 // requests or rows that may be used now; negative if too many were used in advance
	ahead  time.Duration
	filled time.Time // last update of budget
}

// NewLimit returns a limit in requests or rows per second.
func NewLimit(perSecond float64) *Limit { return &Limit{rate: perSecond, ahead: limitAhead} }

// Wait returns how long to wait before one more request or row may be used, or 0 if it may be used now.
func (l *Limit) Wait(now time.Time) time.Duration {
	l.fill(now)
	if l.budget > 0 {
		return 0
	}
	return l.untilFree()
}

// Use subtracts n requests or rows from the budget. If n exceeds the budget, later callers wait. A negative n increases
// the budget.
func (l *Limit) Use(n float64, now time.Time) {
	l.fill(now)
	l.budget -= n
}

// untilFree returns the time until the budget is 1, but at least a millisecond. If the caller waited less, its
// request or row would make the budget negative.
func (l *Limit) untilFree() time.Duration {
	return max(time.Millisecond, time.Duration((1-l.budget)/l.rate*float64(time.Second)))
}

func (l *Limit) fill(now time.Time) {
	if d := now.Sub(l.filled).Seconds(); d > 0 {
		l.budget = min(max(1, l.rate*l.ahead.Seconds()), l.budget+d*l.rate)
		l.filled = now
	}
}
