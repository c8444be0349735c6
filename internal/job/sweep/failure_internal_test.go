package sweep

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A panic anywhere beside the loop is told to it, so that the sweep ends: here ahead of the request, as in the pacer.
func TestPanicBesideTheLoop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRun(Spec{}, Options{}, counting(nil), false)
		defer close(r.idle)
		var got error
		r.start(func() error { panic("planted") }, func(_ time.Duration, err error) { got = err })
		select {
		case event := <-r.events:
			event()
		case <-time.After(time.Hour):
		}
		if got == nil || !strings.Contains(got.Error(), "internal error: panic: planted") {
			t.Errorf("the loop learns of %v, want the panic", got)
		}
	})
}
