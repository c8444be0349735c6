package sweep_test

import (
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/action"
	"tablesweep/internal/adaptive"
	"tablesweep/internal/copier"
	"tablesweep/internal/emulator"
	"tablesweep/internal/emulator/emulatortest"
	"tablesweep/internal/storage"
	"tablesweep/internal/sweep"
)

// TestBusyPartition works on a table of one partition, as fast as the partition takes it, in
// virtual time. From the second minute on, at most a tenth of the requests may be refused.
func TestBusyPartition(t *testing.T) {
	t.Parallel()
	const rate, minutes = 500, 2 // rows a second
	for name, work := range map[string]func(*storage.Account) copier.Work{
		"copy":   func(a *storage.Account) copier.Work { return copier.Copier{Destination: a.Table("destination")} },
		"delete": func(a *storage.Account) copier.Work { return action.Delete{Table: a.Table("source")} },
	} {
		synctest.Test(t, func(t *testing.T) {
			e, a := emulatortest.NewAccount(t, emulator.Options{Latency: latency})
			rows := someRows(1, rate*60*minutes)
			fill(t, a, "source", rows)
			fill(t, a, "destination", nil)
			if err := e.SetFaults("partition-rate=500; latency=10ms"); err != nil {
				t.Fatal(err)
			}
			e.ResetCounts()
			var first, refusedFirst int64
			go func() {
				time.Sleep(time.Minute)
				first, refusedFirst = e.Counts().TableTransactions(), int64(e.FaultCounts()["partition-rate"])
			}()
			start := time.Now()
			totals, err := sweep.Do(t.Context(), sweep.Scan{Table: a.Table("source"), Strategy: adaptive.Strategy{}, Raw: true}, sweep.Options{}, work(a))
			if err != nil || totals.Written != int64(len(rows)) {
				t.Fatalf("%+v, %v", totals, err)
			}
			took := time.Since(start)
			requests, refused := e.Counts().TableTransactions()-first, int64(e.FaultCounts()["partition-rate"])-refusedFirst
			t.Logf("%s: %v; %d of %d requests refused in the first minute, %d of %d after it", name, took.Round(time.Second), refusedFirst, first, refused, requests)
			if first == 0 || refused*10 > requests {
				t.Errorf("%s: %d of %d requests were refused after the first minute", name, refused, requests)
			}
			if took > 3*minutes*time.Minute {
				t.Errorf("%s took %v", name, took)
			}
		})
	}
}
