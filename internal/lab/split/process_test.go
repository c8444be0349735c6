package split_test

import (
	"strings"
	"testing"

	"tablesweep/internal/lab/split"
	"tablesweep/internal/scan/keysets"
)

// compareInProcess has every contender of one process scan the sets with 64
// workers, and logs a table.
func compareInProcess(t testing.TB, sets []keysets.Set, rows int) [][]split.ProcessResult {
	t.Helper()
	var all [][]split.ProcessResult
	for _, s := range sets {
		results, err := split.CompareInProcess(s, rows, 64)
		if err != nil {
			t.Fatalf("%s: %v", s.Name, err)
		}
		all = append(all, results)
	}
	var table strings.Builder
	if err := split.WriteInProcess(&table, all); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + table.String())
	return all
}

// ratios returns the mean and the largest makespan of a contender, as multiples of
// the bound.
func ratios(all [][]split.ProcessResult, c split.Contender) (mean, worst float64) {
	for _, results := range all {
		ratio := split.Ratio(results, c)
		mean += ratio / float64(len(all))
		worst = max(worst, ratio)
	}
	return mean, worst
}

func TestStealing(t *testing.T) {
	t.Parallel()
	all := compareInProcess(t, madeUp(t), 50_000)
	mean, worst := ratios(all, split.Stealing)
	if mean > 2 || worst > 4.5 {
		t.Errorf("stealing takes %.2f times the bound, %.2f at worst; want 2 and 4.5 at most", mean, worst)
	}
	if steps, _ := ratios(all, split.InProcess); steps < 2*mean {
		t.Errorf("stealing takes %.2f times the bound, %s %.2f: want half of that at most", mean, split.InProcess, steps)
	}
}
