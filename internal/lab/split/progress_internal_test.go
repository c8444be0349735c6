package split

import (
	"math"
	"testing"

	"tablesweep/internal/proof/keysets"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/scan/adaptive"
)

// In a scan's first half, most of a table may be ahead in subtrees that nobody has met. A progress that is
// told there is off by 50 points at most. It would be 71 if steps that believe to be at their end
// were trusted early.
func TestProgressOfFirstHalves(t *testing.T) {
	testsize.InFull(t)
	t.Parallel()
	told := 0
	for _, set := range keysets.Real("") {
		rows, err := set.Table(math.MaxInt)
		if err != nil {
			t.Fatal(err)
		}
		root, _, err := record(rows, adaptive.Strategy{})
		if err != nil {
			t.Fatal(err)
		}
		all := moments(root, rows)
		off := 0.0
		for _, m := range all[:len(all)/2] {
			if share, ok := m.ahead.Progress(m.read); ok {
				off = max(off, math.Abs(share-m.done))
				told++
			}
		}
		t.Logf("%-14s off by %2.0f points at most", set.Name, 100*off)
		if off > 0.5 {
			t.Errorf("%s: a progress in the first half is off by %.2f", set.Name, off)
		}
	}
	if told == 0 {
		t.Error("no first half has a progress")
	}
}
