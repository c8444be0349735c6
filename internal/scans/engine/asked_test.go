package engine_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/local/emulator"
	"tablesweep/internal/problem"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
)

// Many ask for a scan, and start it, at once and again. It is one scan, which runs once.
func TestAsk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withSource(t, 5, 1)
		id := ledger.NewScanID(time.Now())
		for _, r := range []scans.Request{exportRequest("Source", "p"), copyRequest("Source", "Other")} { // the first counts
			var all sync.WaitGroup
			for range 4 {
				e := w.newEngine(w.account)
				all.Go(func() {
					if err := e.RequestStart(t.Context(), id, r); err != nil {
						t.Error(err)
					}
					if err := e.Maintain(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			w.drain()
			w.counted(id, ledger.Succeeded, 5, 5, 0)
			w.sealed("p", "Source")
			time.Sleep(time.Hour)
		}
		list, err := w.list(10)
		w.must(err)
		if len(list) != 1 || list[0].Action.Destination.Container == "" || len(w.ledgerRows("scans", "r|")) != 0 {
			t.Errorf("scans %+v; asked for: %v", list, w.ledgerRows("scans", "r|"))
		}
	})
}

// A scan that can't be started says why, for a week. What will pass is tried again.
func TestAskedAndRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{})
		id := ledger.NewScanID(time.Now())
		w.must(w.engine.RequestStart(t.Context(), id, copyRequest("Source", "Target")))
		told := func() string {
			_, err := w.observer.Status(t.Context(), id)
			if problem.Of(err).Kind != problem.NotFound {
				t.Errorf("status: %v", err)
			}
			return err.Error()
		}
		if s := told(); !strings.Contains(s, "about to start") {
			t.Error(s)
		}
		w.drain()
		for range 2 {
			if s := told(); !strings.Contains(s, "table Source does not exist") {
				t.Error(s)
			}
			w.fill("Source", plainRows(1, 1)) // too late
			time.Sleep(time.Hour)
			w.must(w.engine.RequestStart(t.Context(), id, copyRequest("Source", "Target")), w.engine.Maintain(t.Context()))
		}
		time.Sleep(7 * 24 * time.Hour)
		w.must(w.engine.Maintain(t.Context()))
		if s := told(); !strings.Contains(s, "there is no scan") {
			t.Error(s)
		}

		w.must(w.emulator.SetFaults("seed=1; busy p=1 on=query table=Source"))
		w.must(w.engine.RequestStart(t.Context(), id, copyRequest("Source", "Target")))
		if err := w.engine.Maintain(t.Context()); err == nil {
			t.Error("the source does not answer, and Maintain does not say so")
		}
		w.must(w.emulator.SetFaults(""), w.engine.Maintain(t.Context()))
		w.drain()
		w.counted(id, ledger.Succeeded, 1, 1, 0)
	})
}
