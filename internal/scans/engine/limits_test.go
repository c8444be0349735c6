package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/engine"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/scans/status"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// TestLimits: a scan keeps to its limits in every minute after the first ten seconds, however many instances work on it. It also uses its limits,
// although hosts read the queues only every 5 s. Only a scan with too few steps does not use them, such as a group of small tables while some of its
// members end and others begin.
func TestLimits(t *testing.T) {
	testsize.WithoutRace(t)
	rows := func(s status.Status) int64 { return s.Rows.Scanned }
	requests := func(s status.Status) int64 { return s.Transactions }
	for _, tt := range []struct {
		name   string
		sizes  func(i int) int // the size of each partition
		limits scans.Limits
		used   func(status.Status) int64
		want   int64
		least  float64 // the share of the limit that must be used
	}{
		{"rows", four, scans.Limits{RowsPerSecond: 40}, rows, 40, 0.85},
		{"requests", four, scans.Limits{RowsPerSecond: 1000, RequestsPerSecond: 30}, requests, 30, 0.85},
		{"rows of one partition", giant, scans.Limits{RowsPerSecond: 40}, rows, 40, 0.85},
		{"requests for one partition", giant, scans.Limits{RequestsPerSecond: 30}, requests, 30, 0.85},
		{"partitions of one row", single, scans.Limits{RowsPerSecond: 40}, rows, 40, 0.85},
		{"requests for partitions of one row", single, scans.Limits{RequestsPerSecond: 30}, requests, 30, 0.85},
		{"rows of all sizes", zipf, scans.Limits{RowsPerSecond: 40}, rows, 40, 0.85},
		{"requests for all sizes", zipf, scans.Limits{RequestsPerSecond: 30}, requests, 30, 0.85},
		{"rows of a group", single, scans.Limits{RowsPerSecond: 40}, rows, 40, 0.7},
	} {
		for i, instances := range testsize.Slow([]int{4}, []int{4}, []int{4, 1}) {
			if !testsize.Full() && (tt.name != "rows" || i > 0) {
				continue
			}
			t.Run(fmt.Sprintf("%s, %d instances", tt.name, instances), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, emulator.Options{})
					all := rowsOf(testsize.Slow(3500, 4500, 16_000), tt.sizes)
					r := copyRequest("Source", "Target")
					if strings.HasSuffix(tt.name, "group") {
						r = scans.Request{Source: scans.TableRef{Tables: "small*"}, Action: scans.Action{Type: scans.Count}}
						for rows := range slices.Chunk(all, 1000) {
							w.fill("small"+rows[0].Key.Partition[9:], rows)
						}
					} else {
						w.fill("Source", all)
					}
					w.must(w.emulator.SetFaults("latency=5ms..30ms"))
					r.Limits = &tt.limits
					id := w.start(r)
					stop := make(chan struct{})
					var g task.Group
					for range instances {
						e := w.newEngine(emulatortest.Open(t, w.emulator, nil))
						for function := range scans.Queues {
							g.Go(func() error { return w.poll(e, function, stop) })
						}
					}
					time.Sleep(10 * time.Second)
					next := time.Now()
					var used []int64
					for range testsize.Slow(70, 70, 130) {
						used = append(used, tt.used(w.status(id)))
						next = next.Add(time.Second)
						time.Sleep(time.Until(next))
					}
					low, high := 10., 0.
					for i := 60; i < len(used); i++ {
						rate := float64(used[i]-used[i-60]) / 60 / float64(tt.want)
						low, high = min(low, rate), max(high, rate)
					}
					t.Logf("the scan used %.3f to %.3f of its limit over a minute", low, high)
					if low < tt.least || high > 1.1 {
						t.Errorf("the scan used %.3f to %.3f of its limit over a minute, want %.2f to 1.1", low, high, tt.least)
					}
					w.must(w.engine.Cancel(t.Context(), id))
					close(stop)
					w.must(g.Wait())
				})
			})
		}
	}
}

// The sizes of partitions, by their numbers.
var (
	four   = func(int) int { return 4 }
	giant  = func(int) int { return 1_000_000 }
	single = func(int) int { return 1 }
	zipf   = func(i int) int { return 1 + 600/(1+i*7919%997) }
)

// rowsOf returns n rows in partitions of the given sizes.
func rowsOf(n int, sizes func(i int) int) (rows []storage.Entity) {
	for i := 0; len(rows) < n; i++ {
		for r := range min(sizes(i), n-len(rows)) {
			rows = append(rows, storage.Entity{
				Key:        key.Key{Partition: fmt.Sprintf("customer-%07d", i), Row: fmt.Sprintf("%06d", r)},
				Properties: []storage.Property{storage.Int64Property("Number", int64(r))},
			})
		}
	}
	return rows
}

// poll handles messages of a queue as a host does. If there were messages, it reads the queue again immediately. Otherwise it reads after longer and
// longer pauses.
func (w *world) poll(e *engine.Engine, function string, stop <-chan struct{}) error {
	const batchSize, longest = 16, 5 * time.Second
	var g task.Group
	for pause := time.Duration(0); ; {
		select {
		case <-stop:
			return g.Wait()
		case <-time.After(pause):
		}
		q, messages := w.takeMessages(function, batchSize)
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

// TestDoubleCountedStepsDelayLittle: if steps were counted twice because of a crash, a scan with few steps does not wait long.
func TestDoubleCountedStepsDelayLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := withSource(t, 300, 1)
		id := w.start(scans.Request{Source: scans.TableRef{Table: "Source"}, Action: scans.Action{Type: scans.Count}, Strategy: "serial", Limits: &scans.Limits{RowsPerSecond: 10}})
		_, err := ledger.New(w.account.Table("tablesweep")).Use(t.Context(), id, ledger.Used{Steps: 1, Rows: 10, Waiting: 20, Next: time.Now()})
		w.must(err)
		began := time.Now()
		for w.status(id).State == ledger.Running {
			w.deliver()
			time.Sleep(time.Second)
		}
		if took := time.Since(began); took > 4*time.Minute {
			t.Errorf("the scan took %v, want at most 4 minutes", took)
		}
	})
}

// TestRetryKeepsLimits: the messages of a scan with limits are hidden until their slots. Maintain does not count these steps as lost. A retry gives
// each of them a new slot.
func TestRetryKeepsLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{})
		w.fill("Source", plainRows(400, 1))
		r := scans.Request{Source: scans.TableRef{Table: "Source"}, Action: scans.Action{Type: scans.Count}, Limits: &scans.Limits{RowsPerSecond: 1}}
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
			for function := range scans.Queues {
				_, messages := w.takeMessages(function, storage.MaxGetMessages)
				n += len(messages)
			}
			return n
		}
		if n := hidden(func() error { return w.engine.Maintain(t.Context()) }); n > len(pending)/2 {
			t.Errorf("%d of %d messages are visible after Maintain", n, len(pending))
		}
		w.must(w.engine.Cancel(t.Context(), id))
		time.Sleep(time.Hour)
		before := w.status(id).Steps.Done
		w.must(w.engine.Retry(t.Context(), id))
		for range 10 { // the messages from before the retry are also visible
			w.deliver()
		}
		if n := w.status(id).Steps.Done - before; n > int64(len(pending)/2) {
			t.Errorf("%d of %d steps are done immediately after a retry", n, len(pending))
		}
		for range 100 {
			time.Sleep(time.Minute)
			w.must(w.engine.Maintain(t.Context()))
			w.drain()
		}
		w.checkCounts(id, ledger.Succeeded, 400, 0, 0)
	})
}
