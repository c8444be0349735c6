package sweep_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/action"
	"tablesweep/internal/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/sweep"
)

// quick is how long the service takes for a request.
const quick = "latency=15ms..25ms"

// copyRefused copies rows of as many partitions, in virtual time, while the account refuses requests as a rule says.
// It returns how long that took.
func copyRefused(t *testing.T, rows int, latency, rule string) (took time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		e, a := emulatortest.NewAccount(t, emulator.Options{})
		emulatortest.Table(t, a, "source", someRows(rows, 1))
		emulatortest.Table(t, a, "destination", nil)
		proof.Must(t, e.SetFaults(rule+"; "+latency))
		e.ResetCounts()
		start := time.Now()
		totals, err := sweep.Do(t.Context(), sweep.Spec{Source: a.Table("source"), Steal: true}, sweep.Options{}, action.Copy{Destination: a.Table("destination")})
		if err != nil || totals.Written != int64(rows) {
			t.Fatalf("%+v, %v", totals, err)
		}
		took = time.Since(start)
		t.Logf("%s: %.2f s, %d of %d requests refused", rule, took.Seconds(), totals.Throttles, e.Counts().TableTransactions())
		if limited := strings.HasPrefix(rule, "seed=0; account-rate"); limited && (totals.Throttles == 0 || totals.Throttles > totals.Requests/4) {
			t.Errorf("%d of %d requests were throttled", totals.Throttles, totals.Requests)
		}
	})
	return took
}

// median returns the middle one of so many copies' times.
func median(t *testing.T, rows int, rule string, copies int) time.Duration {
	var took []time.Duration
	for seed := range copies {
		took = append(took, copyRefused(t, rows, quick, fmt.Sprintf("seed=%d; %s", seed, rule)))
	}
	slices.Sort(took)
	return took[copies/2]
}

// TestRefusedByChance: requests that are refused whatever the load hardly slow a copy down. The times are
// medians of three, since the last request of a copy may be refused several times.
func TestRefusedByChance(t *testing.T) {
	testsize.InFull(t)
	t.Parallel()
	const rows = 20_000
	undisturbed := copyRefused(t, rows, quick, "seed=0")
	for _, tt := range []struct {
		rule string
		most float64
	}{{"busy p=0.01", 1.3}, {"timeout-before p=0.05", 1.8}}[:testsize.Slow(0, 1, 2)] {
		if times := median(t, rows, tt.rule, 3).Seconds() / undisturbed.Seconds(); times > tt.most {
			t.Errorf("%s: it took %.2f times as long, want at most %.1f times", tt.rule, times, tt.most)
		}
	}
}

// TestOftenRefused: a copy of a minute takes at most 1.6 times as long if 20 % of all requests are refused, whatever the load. If each is
// made once more for each refusal, it takes 1.25 times as long.
func TestOftenRefused(t *testing.T) {
	testsize.InFull(t)
	t.Parallel()
	const slow = "latency=150ms..250ms"
	const rows = 40_000
	undisturbed := copyRefused(t, rows, slow, "seed=0")
	for seed := range testsize.Slow(1, 1, 3) {
		times := copyRefused(t, rows, slow, fmt.Sprintf("seed=%d; busy p=0.2", seed)).Seconds() / undisturbed.Seconds()
		if times > 1.6 {
			t.Errorf("with seed %d it took %.2f times as long, want at most 1.6 times", seed, times)
		}
	}
}

// TestAccountLimit copies as fast as an account takes requests, but for a tenth: each row is a request. A median, since one copy
// in ten takes a quarter longer at 500 requests a second.
func TestAccountLimit(t *testing.T) {
	testsize.InFull(t)
	t.Parallel()
	for _, rate := range []int{1000, 500, 2000, 4000}[:testsize.Slow(0, 1, 4)] {
		rows := min(20_000, 10*rate)
		allowed := time.Duration(rows) * time.Second / time.Duration(rate)
		if took := median(t, rows, fmt.Sprintf("account-rate=%d", rate), 3); took > allowed*11/10 {
			t.Errorf("with %d requests a second, it took %v, want at most a tenth more than %v", rate, took, allowed)
		}
	}
}
