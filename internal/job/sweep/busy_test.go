package sweep_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/action"
	"tablesweep/internal/job/sweep"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/storage"
)

const (
	busyRate, busyMinutes = 500, 2 // rows a second
	latency               = 10 * time.Millisecond
)

// TestBusyPartitionRefusesFewRequests works on a table of a single partition as fast as the partition allows, in virtual time. From the second minute on, at most a
// tenth of the requests may be refused. The median duration of three runs may be at most 1.5 times the duration that the partition's rate allows. In
// about one copy of thirty, the first ten seconds of queries with 1,000 rows make the source's rate seem too low.
func TestBusyPartitionRefusesFewRequests(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	for _, tt := range []struct {
		name  string
		times int // requests to the partition for each row
		work  func(*storage.Account) action.Work
	}{
		{"delete", 2, func(a *storage.Account) action.Work { return action.Delete{Table: a.Table("source")} }},
		{"copy", 1, func(a *storage.Account) action.Work { return action.Copy{Destination: a.Table("destination")} }},
	}[:testsize.Of(1, 2)] {
		allowed := time.Duration(tt.times) * busyMinutes * time.Minute
		var took []time.Duration
		for runs := testsize.Slow(1, 1, 3); len(took) < runs; {
			synctest.Test(t, func(t *testing.T) { took = append(took, workOnBusyPartition(t, tt.name, tt.work)) })
			if took[0] > allowed*3/2 { // one run in fifty is slow
				runs = 3
			}
		}
		slices.Sort(took)
		if median := took[len(took)/2]; median > allowed*3/2 {
			t.Errorf("%s took %v, the partition's rate allows %v", tt.name, median, allowed)
		}
	}
}

// workOnBusyPartition returns how long the work took.
func workOnBusyPartition(t *testing.T, name string, work func(*storage.Account) action.Work) time.Duration {
	e, a := emulatortest.NewAccount(t, emulator.Options{Latency: latency})
	rows := someRows(1, busyRate*60*busyMinutes)
	emulatortest.Table(t, a, "source", rows)
	emulatortest.Table(t, a, "destination", nil)
	proof.Must(t, e.SetFaults("partition-rate=500; latency=10ms"))
	e.ResetCounts()
	counts := func() (requests, refused int64) {
		return e.Counts().TableTransactions(), int64(e.FaultCounts()["partition-rate"])
	}
	var requests1, refused1 int64
	minute := time.AfterFunc(time.Minute, func() { requests1, refused1 = counts() })
	start := time.Now()
	totals, err := sweep.Do(t.Context(), sweep.Spec{Source: a.Table("source"), Steal: true}, sweep.Options{}, work(a))
	if err != nil || totals.Written != int64(len(rows)) {
		t.Fatalf("got the totals %+v, error %v; want %d written rows", totals, err, len(rows))
	}
	took := time.Since(start)
	if minute.Stop() {
		t.Fatalf("%s took only %v, so the partition was not busy", name, took)
	}
	requests, refused := counts()
	requests, refused = requests-requests1, refused-refused1
	t.Logf("%s: %v; %d of %d requests refused in the first minute, %d of %d after it", name, took.Round(time.Second), refused1, requests1, refused, requests)
	if refused*10 > requests {
		t.Errorf("%s: %d of %d requests were refused after the first minute", name, refused, requests)
	}
	return took
}
