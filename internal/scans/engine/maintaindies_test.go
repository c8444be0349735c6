package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/scans"
)

// A lost message is sent again even if each Maintain dies after five seconds, and the next Maintain begins
// immediately.
func TestMaintainDiesEarly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withSource(t, 30, 1)
		id := w.start(countInSteps)
		q, lost := w.takeMessages(scans.ScanPrefix, 1)
		for _, m := range lost {
			w.must(q.Delete(t.Context(), m))
		}
		time.Sleep(time.Minute)
		for range 6 {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			_ = w.engine.Maintain(ctx)
			cancel()
			w.restart()
		}
		w.drain()
		w.checkCounts(id, "succeeded", 30, 0, 0)
	})
}
