package sweep

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A panic in a task becomes an error that the loop receives, so the sweep ends. Here the panic happens before the request, as a panic of the pacer
// would.
func TestPanicOfATaskEndsTheSweep(t *testing.T) {
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
			t.Errorf("the loop received %v, want the panic", got)
		}
	})
}
