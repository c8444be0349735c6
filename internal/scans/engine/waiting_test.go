package engine_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/engine"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/scans/status"
	"tablesweep/internal/task"
)

// TestStatusWhileWaiting: a destination refuses all requests for a minute. From the twelfth second on, the status shows what the scan waits
// for, since when, and how often it was throttled. It shows no time left and, after 15 s, no rate. The list also shows the cause.
// Each throttled request counts once.
func TestStatusWhileWaiting(t *testing.T) {
	testsize.WithoutRace(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{})
		backup := emulatortest.New(t, emulator.Options{})
		other := emulatortest.New(t, emulator.Options{})
		w.fill("Source", plainRows(400, 5))
		w.must(w.emulator.SetFaults("latency=50ms"))
		e := w.newEngine(w.account, func(o *options) {
			o.Accounts["BACKUP"], o.Accounts["OTHER"] = emulatortest.Open(t, backup, nil), emulatortest.Open(t, other, nil)
		})
		r := copyRequest("Source", "Target")
		r.Action.Destination.Connection, r.SegmentSize = "BACKUP", 10
		id, err := e.Start(t.Context(), r)
		w.must(err)
		proof.Must(t, backup.SetFaults("latency=3s")) // so that the scan takes some minutes
		var g task.Group
		g.Go(func() error { return w.handleMessages(e, id) })
		time.Sleep(40 * time.Second)
		if s := w.status(id); s.Phase != status.Working || s.Rate == nil || s.LastStepAt == nil || s.Leased != nil {
			t.Fatalf("before the outage, the status is %+v, and the leased steps are %+v", s, s.Leased)
		}
		w.must(backup.SetFaults("busy p=1"))
		began := time.Now()
		known := time.Duration(0)
		var last status.Status
		for range 60 {
			time.Sleep(time.Second)
			s := w.status(id)
			age := time.Since(began)
			if s.Phase == "waiting" && known == 0 {
				known = age
			}
			if known > 0 && (s.Phase != "waiting" || s.SecondsLeft != nil) {
				t.Errorf("after %v, the phase is %s, want waiting", age, s.Phase)
			}
			if s.LastStepAt != nil && s.At.Sub(*s.LastStepAt) >= 16*time.Second && s.Rate != nil {
				t.Errorf("after %v, and %v after the last step, the rate is %v, want none", age, s.At.Sub(*s.LastStepAt), *s.Rate)
			}
			if list, err := w.list(1); err != nil || known > 0 && (list[0].Phase != "waiting" || list[0].Cause != "BACKUP: it answers 503 ServerBusy") {
				t.Errorf("after %v, the list shows phase %s, cause %q, error %v", age, list[0].Phase, list[0].Cause, err)
			}
			last = s
		}
		if known == 0 || known > 12*time.Second {
			t.Errorf("the status shows the wait after %v, want 12 s", known)
		}
		l := last.Leased
		if l == nil || l.Throttled == 0 || last.Throttled < l.Throttled || len(l.Waiting) != 1 || l.Waiting[0].Connection != "BACKUP" || l.Waiting[0].Cause != "it answers 503 ServerBusy" || l.Instances[0].Steps != l.Steps {
			t.Fatalf("at the outage's end, the leased steps are %+v", l)
		}
		if since := l.Waiting[0].Since.Sub(began); since < -10*time.Second || since > 3*time.Second {
			t.Errorf("the scan waits since %v after the outage began, want since its beginning", since)
		}
		w.must(backup.SetFaults(""))
		w.must(g.Wait())
		if s := w.status(id); s.State != ledger.Succeeded || s.Leased != nil || s.Throttled < l.Throttled || s.Throttled > l.Throttled+100 {
			t.Errorf("at the end, the scan is %s, was throttled %d times, and has leased steps %+v; the status had shown %d throttled requests", s.State, s.Throttled, s.Leased, l.Throttled)
		}
	})
}

// handleMessages handles several messages concurrently, as an instance does, until the scan has ended.
func (w *world) handleMessages(e *engine.Engine, id ledger.ScanID) error {
	const concurrent = 12 // as in host.json
	var g task.Group
	for range concurrent {
		g.Go(func() error {
			for {
				found := 0
				for function := range scans.Queues {
					q, messages := w.takeMessages(function, 1)
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

// TestBusyPartition lets two instances copy into a partition that takes 20 requests a second, in virtual time. After the first
// minute, the partition may refuse at most a tenth of the requests, and must be busy. The status counts the refused requests.
func TestBusyPartition(t *testing.T) {
	testsize.InFull(t)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const rows, rate, size, instances = 18_000, 200, 10, 2 // a transaction has 10 rows
		w := withSource(t, 1, rows)
		w.fill("Target", nil)
		w.must(w.emulator.SetFaults("partition-rate=200 table=Target; latency=10ms"))
		r := copyRequest("Source", "Target")
		r.SegmentSize = size
		id := w.start(r)
		began := time.Now()
		var g task.Group
		for range instances {
			e := w.newEngine(emulatortest.Open(w, w.emulator, nil))
			g.Go(func() error { return w.handleMessages(e, id) })
		}
		refused := func() int { return w.emulator.FaultCounts()["partition-rate"] }
		time.Sleep(time.Minute)
		early, written := refused(), int(w.status(id).Rows.Written)
		w.must(g.Wait())
		took, late := time.Since(began), refused()-early
		answered := (rows - written) / size
		t.Logf("the scan took %v; %d requests were refused in the first minute, and %d of %d after it", took, early, late, late+answered)
		if took < 80*time.Second || late*10 > answered+late {
			t.Errorf("%d of %d requests were refused after the first minute, want at most a tenth", late, answered+late)
		}
		if limit := 1.3 * rows / rate; took.Seconds() > limit {
			t.Errorf("the scan took %v, but the partition's rate allows %d s", took, rows/rate)
		}
		// The status counts throttled requests of done steps, but not those of failed deliveries.
		if s := w.status(id); s.State != ledger.Succeeded || s.Throttled > int64(refused()) || s.Throttled < int64(refused())/2 {
			t.Errorf("the scan is %s and counts %d throttled requests, but %d were refused", s.State, s.Throttled, refused())
		}
	})
}

// TestCanceledDeletion: while steps of a canceled deletion are running, the status shows that they may still delete rows.
func TestCanceledDeletion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withSource(t, 3, 1)
		id := w.start(scans.Request{Source: scans.TableRef{Table: "Source"}, Action: scans.Action{Type: scans.Delete}})
		w.process.DieWhen(func(r *http.Request) bool {
			if r.Method == http.MethodDelete {
				time.Sleep(12 * time.Second) // a slow request
			}
			return false
		})
		_, messages := w.takeMessages(scans.ScanPrefix, 1)
		ended := make(chan error, 1)
		go func() {
			_, err := w.engine.Run(t.Context(), w.bodyOf(messages[0]), 1)
			ended <- err
		}()
		time.Sleep(7 * time.Second)
		w.must(w.observer.Cancel(t.Context(), id))
		if s, want := w.status(id), "steps that were running when the scan ended: 1; the requests that they had sent may still delete rows"; s.Cause != want {
			t.Errorf("a %s scan has cause %q, want %q", s.State, s.Cause, want)
		}
		<-ended
		time.Sleep(time.Minute) // in this time, the step's message would have been delivered again
		if s := w.status(id); s.Cause != "" {
			t.Errorf("at the end, the cause is %q, want none", s.Cause)
		}
	})
}
