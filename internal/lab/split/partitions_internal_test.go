package split

import (
	"math"
	"testing"

	"tablesweep/internal/proof"
	"tablesweep/internal/proof/keysets"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/scan"
	"tablesweep/internal/scan/adaptive"
)

// Few queries look behind the last row of a partition: no rule about that could save more than these.
func TestRestsOfPartitions(t *testing.T) {
	testsize.InFull(t)
	t.Parallel()
	sets, sum := keysets.Real(""), 0.0
	for _, set := range sets {
		rows, err := set.Table(math.MaxInt)
		proof.Must(t, err)
		var rests rests
		if _, _, err := record(rows, &rests); err != nil {
			t.Fatal(err)
		}
		share := float64(rests.empty) / math.Ceil(float64(len(rows.Keys))/float64(rows.Page))
		t.Logf("%-14s %.2f a page", set.Name, share)
		sum += share
	}
	if mean := sum / float64(len(sets)); mean > 0.06 {
		t.Errorf("%.3f queries a page look for rows behind the last one of a partition, want 0.06 at most", mean)
	}
}

// rests is the strategy; it counts the queries of parts of one partition that had no rows.
type rests struct {
	adaptive.Strategy
	empty int
}

func (r *rests) Advance(s scan.Step, p scan.Page) (scan.Decision, error) {
	if s.Range.Partition != nil && len(p.Keys) == 0 {
		r.empty++
	}
	return r.Strategy.Advance(s, p)
}
