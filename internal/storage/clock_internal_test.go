package storage

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// One answer determines the service's time to within a second, and many answers determine it more exactly. If somebody
// sets the clock, or an answer contradicts the others, the measurement starts again.
func TestClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a Account
		own := &Table{account: &a}
		a.clock.observe(&http.Response{Header: http.Header{}}, time.Now())
		if got, known := own.Now(time.Now()); known || !got.Equal(time.Now()) {
			t.Errorf("before any answer: time %v, known %v", got, known)
		}
		ahead := 10 * time.Minute
		answer := func(took time.Duration) {
			sent := time.Now()
			date := sent.Add(ahead + took/2).UTC().Format(http.TimeFormat)
			time.Sleep(took)
			a.clock.observe(&http.Response{Header: http.Header{"Date": {date}}}, sent)
		}
		wantWithin := func(what string, least, most time.Duration) {
			t.Helper()
			for _, skew := range []time.Duration{-time.Hour, time.Hour} {
				got, known := own.Now(time.Now().Add(skew))
				if off := got.Sub(time.Now().Add(ahead)); !known || off < least || off > most {
					t.Errorf("%s, with a clock that is wrong by %v: the result is wrong by %v, known %v", what, skew, off, known)
				}
			}
		}
		time.Sleep(300 * time.Millisecond)
		answer(100 * time.Millisecond)
		wantWithin("one answer", -time.Second-100*time.Millisecond, time.Second+100*time.Millisecond)
		for range 40 {
			time.Sleep(710 * time.Millisecond)
			answer(20 * time.Millisecond)
		}
		wantWithin("many answers", -70*time.Millisecond, 70*time.Millisecond)
		right := time.Now().Add(ahead)
		if got, _ := own.Now(right); !got.Equal(right) {
			t.Errorf("a correct clock was changed by %v", got.Sub(right))
		}
		ahead = -time.Minute
		answer(0)
		wantWithin("the service's clock is set", -time.Second, time.Second)
		a.clock.wall = a.clock.wall.Add(time.Hour)
		if _, known := own.Now(time.Now()); known {
			t.Error("our clock was set: the service's time still counts as known")
		}
	})
}
