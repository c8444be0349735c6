package sweep_test

import (
	"fmt"
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
)

// copyLimited copies rows that are each in their own partition, in virtual time. The account accepts the given number of requests a second, and
// refuses further requests. copyLimited returns the duration.
func copyLimited(t *testing.T, rows, rate, seed int) (took time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		e, a := emulatortest.NewAccount(t, emulator.Options{})
		emulatortest.Table(t, a, "source", someRows(rows, 1))
		emulatortest.Table(t, a, "destination", nil)
		proof.Must(t, e.SetFaults(fmt.Sprintf("seed=%d; account-rate=%d; latency=15ms..25ms", seed, rate)))
		start := time.Now()
		totals, err := sweep.Do(t.Context(), sweep.Spec{Source: a.Table("source"), Steal: true}, sweep.Options{}, action.Copy{Destination: a.Table("destination")})
		if err != nil || totals.Written != int64(rows) {
			t.Fatalf("got the totals %+v, error %v; want %d written rows", totals, err, rows)
		}
		took = time.Since(start)
		t.Logf("%d requests a second: %.2f s, %d of %d requests refused", rate, took.Seconds(), totals.Throttles, totals.Requests)
		if totals.Throttles == 0 || totals.Throttles > totals.Requests/4 {
			t.Errorf("%d of %d requests were throttled", totals.Throttles, totals.Requests)
		}
	})
	return took
}

// TestAccountLimit checks that a copy takes at most a tenth longer than the account's limit requires. Each row is a request. The test uses a median,
// because one copy in ten takes a quarter longer at 500 requests a second.
func TestAccountLimit(t *testing.T) {
	testsize.InFull(t)
	t.Parallel()
	for _, rate := range []int{1000, 500, 2000, 4000}[:testsize.Slow(0, 1, 4)] {
		rows := min(20_000, 10*rate)
		var took []time.Duration
		for seed := range 3 {
			took = append(took, copyLimited(t, rows, rate, seed))
		}
		slices.Sort(took)
		if allowed := time.Duration(rows) * time.Second / time.Duration(rate); took[1] > allowed*11/10 {
			t.Errorf("with %d requests a second, the copy took %v, want at most a tenth more than %v", rate, took[1], allowed)
		}
	}
}
