package storage

import (
	"net/http"
	"sync"
	"time"
)

// steps is how far this machine's wall clock and its monotonic one may go apart before the
// service's time counts as unknown: the clock was set, or the machine slept.
const steps = time.Second

// clock knows the service's time by the Date of its answers, which has whole seconds.
type clock struct {
	mu        sync.Mutex // guards the fields below
	at, wall  time.Time  // our time by the monotonic and the wall clock, at which the service's was between the two
	low, high time.Time
	text      string // the last Date, and what it says: thousands of answers have the same
	date      time.Time
}

// observe learns from an answer that has come just now, to a request that was sent then.
func (c *clock) observe(answer *http.Response, sent time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if text := answer.Header.Get("Date"); text == "" || text != c.text {
		date, err := http.ParseTime(text)
		if err != nil {
			return
		}
		c.text, c.date = text, date
	}
	now := time.Now()
	low, high := c.date, c.date.Add(time.Second+now.Sub(sent))
	if wasLow, wasHigh, ok := c.between(now); ok && wasLow.Before(high) && low.Before(wasHigh) {
		low, high = later(low, wasLow), earlier(high, wasHigh)
	}
	c.at, c.wall, c.low, c.high = now, now.Round(0), low, high
}

// between returns what the service's time is between. ok is false if it is not known.
func (c *clock) between(now time.Time) (low, high time.Time, ok bool) {
	passed := now.Sub(c.at)
	apart := now.Round(0).Sub(c.wall) - passed
	if c.at.IsZero() || apart > steps || apart < -steps {
		return time.Time{}, time.Time{}, false
	}
	return c.low.Add(passed), c.high.Add(passed), true
}

// Now corrects own, the caller's time: it returns what of the service's possible times comes
// nearest. known is false, and own stays as it is, if the process had no answer yet, or if its
// clock was set since.
func (t *Table) Now(own time.Time) (now time.Time, known bool) {
	c := &t.account.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	low, high, known := c.between(time.Now())
	if !known {
		return own, false
	}
	return earlier(later(own, low), high), true
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
