package bench_test

import (
	"strings"
	"testing"

	"tablesweep/internal/key"
	"tablesweep/internal/scan/bench"
)

// compareInProcess runs every contender of one process over the sets with 64
// workers, and logs a table.
func compareInProcess(t testing.TB, sets []bench.Set, rows int) [][]bench.ProcessResult {
	t.Helper()
	var all [][]bench.ProcessResult
	for _, s := range sets {
		results, err := bench.CompareInProcess(s, rows, 64)
		if err != nil {
			t.Fatalf("%s: %v", s.Name, err)
		}
		all = append(all, results)
	}
	var table strings.Builder
	if err := bench.WriteInProcess(&table, all); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + table.String())
	return all
}

// ratios returns the mean and the largest makespan of a contender, as multiples of
// the bound.
func ratios(all [][]bench.ProcessResult, c bench.Contender) (mean, worst float64) {
	for _, results := range all {
		ratio := bench.Ratio(results, c)
		mean += ratio / float64(len(all))
		worst = max(worst, ratio)
	}
	return mean, worst
}

func TestStealing(t *testing.T) {
	t.Parallel()
	all := compareInProcess(t, allSets(t), 50_000)
	mean, worst := ratios(all, bench.Stealing)
	if mean > 2 || worst > 4.5 {
		t.Errorf("stealing takes %.2f times the bound, %.2f at worst; want 2 and 4.5 at most", mean, worst)
	}
	for _, c := range []bench.Contender{bench.InProcess, bench.Halving} {
		if other, _ := ratios(all, c); other < 2*mean {
			t.Errorf("stealing takes %.2f times the bound, %s %.2f: want half of that at most", mean, c, other)
		}
	}
}

// The halves of known ranges, by hand.
func TestHalving(t *testing.T) {
	t.Parallel()
	rows := make([]key.Key, 0, 6000)
	for i := range 6000 {
		rows = append(rows, key.Key{Partition: string([]byte{'a' + byte(i/1000), 'a' + byte(i/100%10), 'a' + byte(i/10%10), 'a' + byte(i%10)})})
	}
	results, err := bench.CompareInProcess(fixed("letters", rows), len(rows), 64)
	if err != nil {
		t.Fatal(err)
	}
	// Serial takes 6 queries. The alphabet has 10 letters, and the first character
	// 6: the first cuts come out empty, later ones halve what is left.
	if got := bench.Ratio(results, bench.Halving); got > 2 {
		t.Errorf("halving takes %.2f times the bound", got)
	}
}
