package split_test

import (
	"testing"

	"tablesweep/internal/lab/split"
	"tablesweep/internal/proof/testsize"
)

func TestStealing(t *testing.T) {
	testsize.InFull(t)
	t.Parallel()
	means, worst := map[split.Contender]float64{}, 0.0 // times, as multiples of the bound
	sets := madeUp(t)
	for _, s := range sets {
		results, err := split.CompareInProcess(s, 50_000, 64)
		if err != nil {
			t.Fatalf("%s: %v", s.Name, err)
		}
		for _, r := range results {
			t.Logf("%s, %s: %.1f", r.Set, r.Contender, r.Ratio())
			means[r.Contender] += r.Ratio() / float64(len(sets))
			if r.Contender == split.Stealing {
				worst = max(worst, r.Ratio())
			}
		}
	}
	mean, steps := means[split.Stealing], means[split.InProcess]
	if mean > 2 || worst > 4.5 {
		t.Errorf("stealing takes %.2f times the bound, %.2f at worst; want 2 and 4.5 at most", mean, worst)
	}
	if steps < 1.2*mean {
		t.Errorf("stealing takes %.2f times the bound, %s %.2f: want 0.83 times that at most", mean, split.InProcess, steps)
	}
}
