package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/emulator"
	"tablesweep/internal/engine"
	"tablesweep/internal/engine/ledger"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/task"
)

// TestWaiting: while a destination refuses everything for a minute, a status says so from the twelfth second on: for what the scan
// waits, since when, and how often it was throttled. It tells no time left, and no rate after 15 s. Each
// throttle counts once.
func TestWaiting(t *testing.T) {
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
