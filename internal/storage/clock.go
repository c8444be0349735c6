package storage

import (
	"net/http"
	"sync"
	"time"
)

// maxDifference is the maximum tolerated difference between this machine's wall clock and its monotonic clock. A larger
// difference means that the wall clock was set or the machine has slept, so the service's time is unknown.
const maxDifference = time.Second

// clock derives the service's time from the Date headers of the service's answers. A Date contains only whole seconds.
type clock struct {
	mu        sync.Mutex // guards the fields below
	at, wall  time.Time  // this machine's monotonic time and wall time at the last answer; at that moment, the service's time was between low and high
	low, high time.Time
	text      string    // the last Date
	date      time.Time // the parsed text, kept because thousands of answers have the same Date
}

// observe narrows the bounds of the service's time. It uses the Date of an answer that has just arrived, and `sent`, the time at
// which the answer's request was sent.
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
	if wasLow, wasHigh, ok := c.bounds(now); ok && wasLow.Before(high) && low.Before(wasHigh) {
		low, high = later(low, wasLow), earlier(high, wasHigh)
	}
	c.at, c.wall, c.low, c.high = now, now.Round(0), low, high
}

// bounds returns a lower and an upper bound of the service's time. ok is false if the time is unknown.
func (c *clock) bounds(now time.Time) (low, high time.Time, ok bool) {
	passed := now.Sub(c.at)
	apart := now.Round(0).Sub(c.wall) - passed
	if c.at.IsZero() || apart > maxDifference || apart < -maxDifference {
		return time.Time{}, time.Time{}, false
	}
	return c.low.Add(passed), c.high.Add(passed), true
}

// Now returns local, which is the time by the caller's clock. But if local is outside the known bounds of
// the service's time, Now returns the nearer bound. Before the first answer, and after the machine's clock
// was set, the service's time is unknown: Now returns local, and `known` is false.
func (t *Table) Now(local time.Time) (now time.Time, known bool) {
	c := &t.account.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	low, high, known := c.bounds(time.Now())
	if !known {
		return local, false
	}
	return earlier(later(local, low), high), true
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
