package engine_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/emulator"
	"tablesweep/internal/engine"
	"tablesweep/internal/engine/ledger"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// TestLimits: however many instances work on a scan, and although their hosts look into the queues every 5 s at the least, it
// keeps to its limits within a tenth over any minute after the first ten seconds, and uses them.
func TestLimits(t *testing.T) {
	for _, instances := range []int{1, 4} {
		for name, tt := range map[string]struct {
			limits engine.Limits
			used   func(engine.Status) int64
			want   int64
		}{
			"rows":     {engine.Limits{RowsPerSecond: 40}, func(s engine.Status) int64 { return s.Rows.Scanned }, 40},
			"requests": {engine.Limits{RowsPerSecond: 1000, RequestsPerSecond: 30}, func(s engine.Status) int64 { return s.Transactions }, 30},
		} {
			if !testsize.Full() && (instances == 1 || name == "requests") {
				continue
			}
			t.Run(fmt.Sprintf("%s, %d instances", name, instances), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, emulator.Options{})
					w.fill("Source", plainRows(1500, 4))
					w.must(w.emulator.SetFaults("latency=5ms..30ms"))
					r := copyRequest("Source", "Target")
					r.Limits = &tt.limits
					id := w.start(r)
					stop := make(chan struct{})
					var g task.Group
					for range instances {
						e := w.newEngine(emulatortest.Open(t, w.emulator, nil))
						for function := range engine.Queues {
							g.Go(func() error { return w.poll(e, function, stop) })
						}
					}
					time.Sleep(10 * time.Second)
					var used []int64
					for range testsize.Of(80, 130) {
						used = append(used, tt.used(w.status(id)))
						time.Sleep(time.Second)
					}
					low, high := 10., 0.
					for i := 60; i < len(used); i++ {
						rate := float64(used[i]-used[i-60]) / 60 / float64(tt.want)
						low, high = min(low, rate), max(high, rate)
					}
					t.Logf("%.3f to %.3f of the limit over a minute", low, high)
					if low < 0.9 || high > 1.1 {
						t.Errorf("it used %.3f to %.3f of its limit over a minute, want 0.9 to 1.1", low, high)
					}
					w.must(w.engine.Cancel(t.Context(), id))
					close(stop)
					w.must(g.Wait())
				})
			})
		}
	}
}

// poll handles messages of a queue as a host does: it looks again at once when there were some, and else after longer and longer pauses.
func (w *world) poll(e *engine.Engine, function string, stop <-chan struct{}) error {
	const batchSize, longest = 16, 5 * time.Second
	var g task.Group
	for pause := time.Duration(0); ; {
		select {
		case <-stop:
			return g.Wait()
		case <-time.After(pause):
		}
		q, messages := w.take(function, batchSize)
		if pause = min(2*pause+100*time.Millisecond, longest); len(messages) > 0 {
			pause = 0
		}
		for _, m := range messages {
			g.Go(func() error {
				if _, err := e.Run(w.Context(), w.bodyOf(m), m.DequeueCount); err != nil {
					return nil // the scan was canceled
				}
				return q.Delete(w.Context(), m)
			})
		}
	}
}

// TestCrashWithLimits lets the process die at each request of a scan with limits: each row counts once.
func TestCrashWithLimits(t *testing.T) {
	crashPoints(t, 1, func(t *testing.T, n int, applied bool) bool {
		w := withSource(t, 12, 1)
		id := w.start(engine.Request{Source: engine.TableRef{Table: "Source"}, Action: engine.Action{Type: engine.Count}, SegmentSize: 5, Limits: &engine.Limits{RowsPerSecond: 1}})
		w.process.DieWith(n, applied)
		survived := true
		for range 40 {
			w.deliver()
			if w.process.Dead() {
				survived = false
				w.restart()
			}
			time.Sleep(20 * time.Second)
			w.maintain(1)
		}
		w.counted(id, ledger.Succeeded, 12, 0, 0)
		return survived
	})
}

// TestLimitsSurviveARetry: messages of a limited scan are hidden until their slots, Maintain does not take them for lost, and a retry spreads them anew.
func TestLimitsSurviveARetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{})
		w.fill("Source", plainRows(400, 1))
		r := engine.Request{Source: engine.TableRef{Table: "Source"}, Action: engine.Action{Type: engine.Count}, Limits: &engine.Limits{RowsPerSecond: 1}}
		id := w.start(r)
		for range 20 {
			w.deliver()
			time.Sleep(10 * time.Second)
		}
		pending, err := ledger.New(w.account.Table("tablesweep")).FirstPending(t.Context(), id)
		w.must(err)
		if len(pending) < 4 {
			t.Fatalf("only %d steps are pending", len(pending))
		}
		hidden := func(after func() error) (n int) {
			w.must(after())
			for function := range engine.Queues {
				_, messages := w.take(function, storage.MaxGetMessages)
				n += len(messages)
			}
			return n
		}
		if n := hidden(func() error { return w.engine.Maintain(t.Context()) }); n > 3 {
			t.Errorf("%d of %d messages are visible after Maintain", n, len(pending))
		}
		w.must(w.engine.Cancel(t.Context(), id))
		time.Sleep(time.Hour)
		before := w.status(id).Steps.Done
		w.must(w.engine.Retry(t.Context(), id))
		for range 10 { // the messages of before the retry are visible, too
			w.deliver()
		}
		if n := w.status(id).Steps.Done - before; n > 3 {
			t.Errorf("%d of %d steps are done at once after a retry", n, len(pending))
		}
		for range 100 {
			time.Sleep(time.Minute)
			w.must(w.engine.Maintain(t.Context()))
			w.drain()
		}
		w.counted(id, ledger.Succeeded, 400, 0, 0)
	})
}
