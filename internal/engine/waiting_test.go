package engine_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"tablesweep/internal/emulator"
	"tablesweep/internal/emulator/fault"
	"tablesweep/internal/engine"
	"tablesweep/internal/engine/ledger"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/task"
)

// TestWaiting: while a destination refuses everything for a minute, a status says so from the twelfth second on: for what the scan
// waits, since when, and how often it was throttled. It tells no time left, and no rate after 15 s. Each
// throttle counts once.
func TestWaiting(t *testing.T) {
	testsize.WithoutRace(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{})
		backup := emulatortest.New(t, emulator.Options{})
		other := emulatortest.New(t, emulator.Options{})
		w.fill("Source", plainRows(400, 5))
		w.must(w.emulator.SetFaults("latency=50ms"))
		e := w.newEngine(w.account, func(o *engine.Options) {
			o.Accounts["BACKUP"], o.Accounts["OTHER"] = emulatortest.Open(t, backup, nil), emulatortest.Open(t, other, nil)
		})
		r := copyRequest("Source", "Target")
		r.Action.Destination.Connection, r.SegmentSize = "BACKUP", 10
		id, err := e.Start(t.Context(), r)
		w.must(err)
		if err := backup.SetFaults("latency=3s"); err != nil { // so that it takes some minutes
			t.Fatal(err)
		}
		var g task.Group
		g.Go(func() error { return w.work(e, id) })
		time.Sleep(40 * time.Second)
		if s := w.status(id); s.Phase != engine.Working || s.Rate == nil || s.LastStepAt == nil || s.Leased != nil {
			t.Fatalf("before the outage: %+v, leased %+v", s, s.Leased)
		}
		w.must(backup.SetFaults("busy p=1"))
		began := time.Now()
		known := time.Duration(0)
		var last engine.Status
		for range 60 {
			time.Sleep(time.Second)
			s := w.status(id)
			age := time.Since(began)
			if s.Phase == "waiting" && known == 0 {
				known = age
			}
			if known > 0 && (s.Phase != "waiting" || s.SecondsLeft != nil) {
				t.Errorf("after %v it waits no more: %s", age, s.Phase)
			}
			if s.LastStepAt != nil && s.At.Sub(*s.LastStepAt) >= 16*time.Second && s.Rate != nil {
				t.Errorf("after %v, %v after the last step, the rate is %v", age, s.At.Sub(*s.LastStepAt), *s.Rate)
			}
			last = s
		}
		if known == 0 || known > 12*time.Second {
			t.Errorf("told after %v, want 12 s", known)
		}
		l := last.Leased
		if l == nil || l.Throttled == 0 || len(l.Waiting) != 1 || l.Waiting[0].Connection != "BACKUP" || l.Waiting[0].Cause != "it answers 503 ServerBusy" || l.Instances[0].Steps != l.Steps {
			t.Fatalf("at the outage's end: %+v", l)
		}
		if since := l.Waiting[0].Since.Sub(began); since < -10*time.Second || since > 3*time.Second {
			t.Errorf("it waits since %v after the outage began", since)
		}
		w.must(backup.SetFaults(""))
		w.must(g.Wait())
		if s := w.status(id); s.State != ledger.Succeeded || s.Leased != nil || s.Throttled < l.Throttled || s.Throttled > l.Throttled+100 {
			t.Errorf("at the end %s, throttled %d times, leased %+v; %d were seen", s.State, s.Throttled, s.Leased, l.Throttled)
		}
	})
}

// TestPhases: whatever the destination does, the status says it, the same all the time, and the list says the very same.
func TestPhases(t *testing.T) {
	testsize.WithoutRace(t)
	for _, tt := range []struct{ faults, phase, cause string }{
		{"latency=3s", engine.Working, ""},
		{"latency=300ms; busy p=0.6", "throttled", "the storage throttles "},
		{"busy p=1", "waiting", "BACKUP: it answers 503 ServerBusy"},
		{"reset-before p=1", "waiting", "BACKUP: connection broken"},
		{"latency=1h", "waiting", "BACKUP: no answer "},
		{"latency=6s", engine.Working, ""},
	} {
		if !testsize.Full() && tt.faults != "latency=1h" && tt.faults != "latency=6s" {
			continue
		}
		t.Run(tt.faults, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, emulator.Options{})
				backup := emulatortest.New(t, emulator.Options{})
				w.fill("Source", plainRows(1100, 5))
				e := w.newEngine(w.account, func(o *engine.Options) { o.Accounts["BACKUP"] = emulatortest.Open(t, backup, nil) })
				r := copyRequest("Source", "Target")
				r.Action.Destination.Connection, r.SegmentSize = "BACKUP", 30
				id, err := e.Start(t.Context(), r)
				w.must(err)
				var g task.Group
				w.must(backup.SetFaults("latency=1s"))
				g.Go(func() error { return w.work(e, id) })
				time.Sleep(4 * time.Second) // until several steps are under way
				w.must(backup.SetFaults(tt.faults))
				time.Sleep(15*time.Second + 300*time.Millisecond)
				for range testsize.Of(4, 9) {
					time.Sleep(1300 * time.Millisecond)
					synctest.Wait()
					s := w.status(id)
					if s.Phase != tt.phase || !strings.HasPrefix(s.Cause, tt.cause) || s.Throttled > s.Cost.Requests || s.Transactions != s.Cost.Requests {
						t.Errorf("%v: %s: %q, %d requests, %d throttled; want %s: %q", s.Seconds, s.Phase, s.Cause, s.Cost.Requests, s.Throttled, tt.phase, tt.cause)
					}
					list, err := w.list(1)
					w.must(err)
					if diff := cmp.Diff(s, list[0], cmpopts.IgnoreUnexported(engine.Leased{}, engine.Instance{})); diff != "" {
						t.Errorf("the list says another thing (-status +list):\n%s", diff)
					}
				}
				w.must(backup.SetFaults(""), w.engine.Cancel(t.Context(), id), g.Wait())
			})
		})
	}
}

// work handles messages as an instance does, several at once, until the scan has ended.
func (w *world) work(e *engine.Engine, id string) error {
	const atOnce = 12 // as host.json allows
	var g task.Group
	for range atOnce {
		g.Go(func() error {
			for {
				found := 0
				for function := range engine.Queues {
					q, messages := w.take(function, 1)
					found += len(messages)
					for _, m := range messages {
						_, err := e.Run(w.Context(), w.bodyOf(m), m.DequeueCount)
						if err != nil {
							w.Logf("delivery %d failed: %v", m.DequeueCount, err)
							_, err = q.Update(w.Context(), m, 10*time.Second)
						} else {
							err = q.Delete(w.Context(), m)
						}
						if err != nil {
							return err
						}
					}
				}
				if found == 0 {
					if w.status(id).State != ledger.Running {
						return nil
					}
					time.Sleep(time.Second)
				}
			}
		})
	}
	return g.Wait()
}

// TestBusyPartition lets two instances copy into a partition that takes 20 requests a second, in virtual time. After
// the first minute, at most a tenth may be refused, and the partition must be busy. The status tells of them.
func TestBusyPartition(t *testing.T) {
	testsize.InFull(t)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const rows, rate, size, instances = 18_000, 200, 10, 2 // transactions of 10 rows
		counts := make(chan [2]int, 1)                         // requests answered by the partition, and failed ones
		counts <- [2]int{}
		count := func(table string, what int) {
			if table == "Target" {
				c := <-counts
				c[what]++
				counts <- c
			}
		}
		w := newWorld(t, emulator.Options{
			OnRequest: func(e emulator.Event) {
				if e.Applied && e.Confined {
					count(e.Table, 0)
				}
			},
			OnFault: func(r fault.Request, _ fault.Name) { count(r.Table, 1) },
		})
		w.fill("Source", plainRows(1, rows))
		w.fill("Target", nil)
		w.must(w.emulator.SetFaults("partition-rate=200 table=Target; latency=10ms"))
		r := copyRequest("Source", "Target")
		r.SegmentSize = size
		id := w.start(r)
		began := time.Now()
		var first [2]int
		var g task.Group
		for range instances {
			e := w.newEngine(emulatortest.Open(w, w.emulator, nil))
			g.Go(func() error { return w.work(e, id) })
		}
		g.Go(func() error {
			time.Sleep(time.Minute)
			first = <-counts
			counts <- first
			return nil
		})
		w.must(g.Wait())
		took := time.Since(began)
		last := <-counts
		answered, refused := last[0]-first[0], last[1]-first[1]
		t.Logf("%v; %d answered and %d refused in the first minute, %d and %d after it", took, first[0], first[1], answered, refused)
		if took < 80*time.Second || refused*10 > answered+refused {
			t.Errorf("%d of %d requests were refused after the first minute", refused, answered+refused)
		}
		if limit := 1.3 * rows / rate; took.Seconds() > limit {
			t.Errorf("it took %v, the partition's rate allows %d s", took, rows/rate)
		}
		// Steps tell of it that are done, and not of their failed deliveries.
		if s := w.status(id); s.State != ledger.Succeeded || s.Throttled > int64(last[1]) || s.Throttled < int64(last[1])/2 {
			t.Errorf("%s, %d requests throttled; %d were", s.State, s.Throttled, last[1])
		}
	})
}

// TestCanceledDeletion: while steps of a deletion that was canceled are under way, its status says what they may yet do.
func TestCanceledDeletion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withSource(t, 3, 1)
		id := w.start(engine.Request{Source: engine.TableRef{Table: "Source"}, Action: engine.Action{Type: engine.Delete}})
		w.process.DieWhen(func(r *http.Request) bool {
			if r.Method == http.MethodDelete {
				time.Sleep(12 * time.Second) // a slow request
			}
			return false
		})
		_, messages := w.take(engine.ScanPrefix, 1)
		ended := make(chan error, 1)
		go func() {
			_, err := w.engine.Run(t.Context(), w.bodyOf(messages[0]), 1)
			ended <- err
		}()
		time.Sleep(7 * time.Second)
		w.must(w.observer.Cancel(t.Context(), id))
		if s, want := w.status(id), "steps under way at its end: 1; the requests that they had sent may yet delete rows"; s.Cause != want {
			t.Errorf("%s: %q, want %q", s.State, s.Cause, want)
		}
		<-ended
		time.Sleep(time.Minute) // in which its message would have come again
		if s := w.status(id); s.Cause != "" {
			t.Errorf("at the end: %q", s.Cause)
		}
	})
}
