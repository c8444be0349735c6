package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/problem"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/split/strategy"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
	"tablesweep/internal/task/memory"
)

// sized returns a row with a text of the given number of bytes.
func sized(partition, row string, bytes int) storage.Entity {
	e := storage.Entity{Key: key.Key{Partition: partition, Row: row}}
	for i := 0; bytes > 0; i++ {
		n := min(bytes, 30_000)
		e.Properties = append(e.Properties, storage.StringProperty(fmt.Sprint("P", i), strings.Repeat("x", n)))
		bytes -= n
	}
	return e
}

// scansOfPartitions starts n scans, each of which copies one partition, and returns their ids and first messages.
func (w *world) scansOfPartitions(n int) (ids []ledger.ScanID, bodies [][]byte) {
	w.Helper()
	for i := range n {
		r := copyRequest("Source", "Target")
		partition := fmt.Sprintf("p%02d", i)
		r.Range = key.Bounds{Prefix: partition}
		ids = append(ids, w.start(r))
	}
	for {
		taken := len(bodies)
		for _, function := range []string{scans.ScanPrefix, scans.ScanPartition} {
			q, messages := w.takeMessages(function, storage.MaxGetMessages)
			for _, m := range messages {
				bodies = append(bodies, w.bodyOf(m))
				w.must(q.Delete(w.Context(), m))
			}
		}
		if len(bodies) == taken {
			return ids, bodies
		}
	}
}

// TestStepsWaitForMemory: 24 steps run concurrently, but the memory is enough for two. All steps end, and they never take more than the
// memory.
func TestStepsWaitForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{})
		const steps, rows, size = 24, 20, 40_000
		var all []storage.Entity
		for p := range steps {
			for r := range rows {
				all = append(all, sized(fmt.Sprintf("p%02d", p), fmt.Sprintf("%02d", r), size))
			}
		}
		w.fill("Source", all)
		w.memory = memory.NewBudget(2 * storage.MemoryOf(rows*(size+500), rows) * 16 / 15)
		w.restart()
		w.must(w.emulator.SetFaults("latency=100ms"))
		ids, bodies := w.scansOfPartitions(steps)
		var g sync.WaitGroup
		for _, body := range bodies {
			g.Go(func() {
				if _, err := w.engine.Run(t.Context(), body, 1); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(250 * time.Millisecond) // by now, each step has read its scan
		if u := w.memory.Usage(); u.Waiting < steps/2 {
			t.Errorf("memory %+v: want at least half of the steps to wait", u)
		} else if call, ok := w.memory.TryTake(u.Bytes * 7 / 8 / 4); !ok { // besides the reserves
			t.Errorf("memory %+v: the steps do not leave a quarter to calls", u)
		} else {
			call.Release()
		}
		g.Wait()
		if u := w.memory.Usage(); u.Most > u.Bytes || u.Most < u.Bytes/2 {
			t.Errorf("memory %+v: want its maximum between half of the budget and the budget", u)
		}
		w.drain()
		for _, id := range ids {
			w.checkCounts(id, ledger.Succeeded, rows, rows, 0)
		}
		w.equalTables("Source", "Target")
	})
}

// TestStepWithoutMemory: a step that gets no memory is postponed, even at its last delivery. It is done when memory is free.
func TestStepWithoutMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := withSource(t, 2, 3)
		id := w.start(copyRequest("Source", "Target"))
		_, messages := w.takeMessages(scans.ScanPrefix, 1)
		others, err := w.memory.Take(t.Context(), 1<<40)
		w.must(err)
		for delivery := 1; delivery <= scans.MaxDeliveries; delivery++ {
			began := time.Now()
			time.AfterFunc(20*time.Second, func() {
				s := w.status(id)
				if s.Phase != "waiting" || s.Cause != "memory: other steps and calls are using all of it" || s.Leased == nil || len(s.Leased.Waiting) != 1 {
					t.Errorf("while the step waits, the phase is %s, the cause is %s, and the leased steps are %+v", s.Phase, s.Cause, s.Leased)
				} else if l := s.Leased.Waiting[0]; l.Connection != "memory" || l.Scan != "" || l.Since.Sub(began).Abs() > time.Second {
					t.Errorf("the status shows the wait %+v, want one for memory since %v", l, began)
				}
			})
			_, err := w.engine.Run(t.Context(), w.bodyOf(messages[0]), delivery)
			if problem.FateOf(err) != problem.Retry || time.Since(began) < time.Minute {
				t.Errorf("delivery %d ended after %v: got error %v, want a retry after a minute", delivery, time.Since(began), err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		if _, err := w.engine.Run(ctx, w.bodyOf(messages[0]), 1); !errors.Is(err, context.Canceled) {
			t.Errorf("a canceled delivery: got error %v", err)
		}
		if s := w.status(id); s.State != ledger.Running || s.Steps.Pending != 1 {
			t.Errorf("got status %+v, want running with one pending step", s)
		}
		others.Release()
		if _, err := w.engine.Run(t.Context(), w.bodyOf(messages[0]), scans.MaxDeliveries); err != nil {
			t.Error(err)
		}
		w.drain()
		w.checkCounts(id, ledger.Succeeded, 6, 6, 0)
		if s := w.status(id); s.Leased != nil || s.Cause != "" {
			t.Errorf("at the end, the leased steps are %+v and the cause is %q, want neither", s.Leased, s.Cause)
		}
	})
}

// TestMemoryIsReleased: a step releases its memory after an error, a canceled call and a panic, whichever request this occurs in. The
// scan then succeeds.
func TestMemoryIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, how := range []string{"error", "cancel", "panic"} {
			for n := 1; ; n++ {
				w := withSource(t, 3, 2)
				id := w.start(copyRequest("Source", "Target"))
				_, messages := w.takeMessages(scans.ScanPrefix, 1)
				ctx, cancel := context.WithCancel(t.Context())
				var mu sync.Mutex
				requests := 0
				w.process.Next = transport(func(r *http.Request) (*http.Response, error) {
					mu.Lock()
					requests++
					now := requests == n
					mu.Unlock()
					switch {
					case now && how == "panic":
						panic("a bug")
					case now && how == "cancel":
						cancel()
					case now:
						return emulatortest.Refusal(r, 403, "AuthorizationFailure"), nil
					}
					return w.emulator.Transport().Do(r)
				})
				err := task.Do(func() error {
					_, err := w.engine.Run(ctx, w.bodyOf(messages[0]), 1)
					return err
				})
				cancel()
				if u := w.memory.Usage(); u.Used != 0 {
					t.Fatalf("%s in request %d: memory %+v, error %v", how, n, u, err)
				}
				if requests < n {
					if n < 5 || err != nil {
						t.Errorf("%s: the last of %d requests: error %v", how, n, err)
					}
					break
				}
				if s := w.status(id); s.State == ledger.Failed && how != "error" {
					t.Errorf("%s in request %d: the scan ended as %s: %s", how, n, s.State, s.Error)
				}
			}
		}
	})
}

// TestRowsOfAnySize: rows of any size are read once. After the first large page, a page has a few MiB.
func TestRowsOfAnySize(t *testing.T) {
	testsize.WithoutRace(t)
	for seed := range testsize.Of[uint64](1, 2) {
		chance := rand.New(rand.NewPCG(60, seed))
		w := newWorld(t, emulator.Options{})
		var all []storage.Entity
		for p := range 6 {
			size := []int{10, 500, 5_000, 60_000, 150_000, 450_000}[chance.IntN(6)]
			for r := range min(1200, 1+chance.IntN(testsize.Of(1_000_000, 3_000_000)/size)) {
				bytes := size
				if chance.IntN(20) == 0 {
					bytes = chance.IntN(100_000)
				}
				all = append(all, sized(fmt.Sprintf("p%02d", p), fmt.Sprintf("%04d", r), bytes))
			}
		}
		w.fill("Source", all)
		w.memory = memory.NewBudget(64 << 20)
		w.restart()
		for _, s := range strategy.Names {
			r := copyRequest("Source", "Target"+s)
			r.Strategy = s
			if got := w.succeed(r); got.Rows.Scanned != int64(len(all)) || got.Rows.Written != int64(len(all)) {
				t.Errorf("seed %d, %s: counted rows %+v, want %d", seed, s, got.Rows, len(all))
			}
			w.equalTables("Source", "Target"+s)
		}
	}
}

// TestPagesOfLargeRows: after the first page, pages of large rows have about 4 MiB. Pages of rows of 4 KB have a thousand rows.
func TestPagesOfLargeRows(t *testing.T) {
	testsize.WithoutRace(t)
	for _, tt := range []struct {
		size, rows    int
		first, behind int // the maximum numbers of rows in the first page and in later pages
	}{{4096, 2100, 1000, 1000}, {400_000, 60, 45, 11}} {
		w := newWorld(t, emulator.Options{})
		var all []storage.Entity
		for r := range tt.rows {
			all = append(all, sized("p", fmt.Sprintf("%04d", r), tt.size))
		}
		w.fill("Source", all)
		var pages []int
		w.process.Next = emulatortest.Via{Transporter: w.emulator.Transport(), Answer: func(r *http.Request, _ string) (*http.Response, error) {
			if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/Source(") {
				return nil, nil
			}
			resp, err := w.emulator.Transport().Do(r)
			if err == nil {
				pages = append(pages, int(resp.ContentLength)/tt.size)
			}
			return resp, err
		}}
		r := copyRequest("Source", "Target")
		r.Strategy = strategy.Serial
		w.succeed(r)
		pages = slices.DeleteFunc(pages, func(rows int) bool { return rows < 2 }) // leave out queries that only check whether there are rows
		if pages[0] < tt.first*9/10 || pages[0] > tt.first*12/10 || slices.Max(pages[1:]) > tt.behind*12/10 || len(pages) < 3 {
			t.Errorf("rows of %d bytes: the pages have %v rows", tt.size, pages)
		}
	}
}

// TestLittleMemoryRepeatsNoMessage: a step that waits for memory, because its map makes large rows, sends no message twice.
func TestLittleMemoryRepeatsNoMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{})
		var all []storage.Entity
		for r := range 100 {
			all = append(all, sized("p", fmt.Sprintf("%03d", r), 5000))
		}
		w.fill("Source", append(all, sized("p", "999", 200_000)))
		w.memory = memory.NewBudget(6 << 20)
		w.restart()
		w.start(scans.Request{Source: scans.TableRef{Table: "Source"}, Strategy: strategy.Serial, Action: scans.Action{
			Type: scans.Enqueue, Queue: &scans.QueueRef{Name: "orders"}, Message: "{{.RowKey}}",
			Map: `if .RowKey == "999" then ("€" * 30000) as $x | .Q0 = $x | .Q1 = $x | .Q2 = $x | .Q3 = $x | .Q4 = $x | .Q5 = $x | .Q6 = $x | .Q7 = $x | .Q8 = $x else . end`}})
		others, ok := w.memory.TryTake(1600 << 10)
		if !ok {
			t.Fatal("the memory is already taken")
		}
		time.AfterFunc(4*time.Second, others.Release)
		w.drain()
		q, err := w.account.Queue("orders")
		w.must(err)
		if n, err := q.Length(t.Context()); err != nil || n != 101 {
			t.Errorf("the queue has %d messages, %v; want one for each of 101 rows", n, err)
		}
	})
}

// TestWritingHoldsOnlyReadRows: while a destination is unavailable, steps hold memory only for the rows that they have read.
func TestWritingHoldsOnlyReadRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{})
		w.fill("Source", []storage.Entity{sized("p00", "a", 5000), sized("p01", "a", 5000), sized("p02", "a", 5000)})
		_, bodies := w.scansOfPartitions(3)
		away := func(r *http.Request, body string) bool {
			return r.Method != http.MethodGet && strings.Contains(r.URL.Path+body, "/Target")
		}
		w.refuse(503, "ServerBusy", away)
		ctx, cancel := context.WithCancel(t.Context())
		var g sync.WaitGroup
		for _, body := range bodies {
			g.Go(func() { _, _ = w.engine.Run(ctx, body, 1) })
		}
		time.Sleep(20 * time.Second)
		if u := w.memory.Usage(); u.Used < 3*storage.MemoryOf(5000, 1) || u.Used > 60_000 {
			t.Errorf("the steps hold memory %+v for three rows of 5 KB", u)
		}
		cancel()
		g.Wait()
	})
}

// TestStepAfterLargeRowsWaitsForLessMemory: even if an earlier step needed more, a step waits for at most half of the memory for steps.
func TestStepAfterLargeRowsWaitsForLessMemory(t *testing.T) {
	testsize.WithoutRace(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{})
		var all []storage.Entity
		for r := range 50 {
			all = append(all, sized("p", fmt.Sprintf("%03d", r), 400_000))
		}
		w.fill("Source", all)
		w.memory = memory.NewBudget(100 << 20)
		w.restart()
		r := copyRequest("Source", "Target")
		r.Strategy = strategy.Serial
		w.start(r)
		q, messages := w.takeMessages(scans.ScanPrefix, 1)
		_, err := w.engine.Run(t.Context(), w.bodyOf(messages[0]), 1)
		w.must(err)
		w.must(q.Delete(t.Context(), messages[0]))
		if u := w.memory.Usage(); u.Most < 45<<20 {
			t.Errorf("the first step used memory %+v, want at least 45 MiB", u)
		}
		others, err := w.memory.Take(t.Context(), 50<<20)
		w.must(err)
		defer others.Release()
		began := time.Now()
		if w.drain(); time.Since(began) > time.Minute {
			t.Errorf("the other steps waited for %v, want at most a minute", time.Since(began))
		}
		w.equalTables("Source", "Target")
	})
}
