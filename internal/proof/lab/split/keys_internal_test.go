package split

import (
	"math"
	"testing"

	"tablesweep/internal/proof"
	"tablesweep/internal/proof/keysets"
	"tablesweep/internal/split/adaptive"
	"tablesweep/internal/split/scan"
)

// A scan that lists partition keys skips rows. The adaptive strategy needs less time for this than the published one, with no more queries.
func TestPartitionsOfRealTables(t *testing.T) {
	t.Parallel()
	sets := keysets.Real("")
	time, queries, theirs := 0.0, 0, 0
	for _, set := range sets {
		rows, err := set.Table(math.MaxInt)
		proof.Must(t, err)
		of := func(s scan.Strategy) Result {
			root, _, err := record(rows, s)
			if err != nil {
				t.Fatalf("%s: %v", set.Name, err)
			}
			var r Result
			r.measure(root, schedule{segments: 1})
			return r
		}
		published, ours := of(scan.Prefix{KeepPartitions: true}), of(adaptive.Strategy{Partitions: true})
		x := makespan(ours, 3) / makespan(published, 3)
		t.Logf("%-14s time %4.0f, the published one's %4.0f, ratio %.2f; queries %4d and %4d", set.Name, makespan(ours, 3), makespan(published, 3), x, ours.Queries, published.Queries)
		time += x / float64(len(sets))
		queries += ours.Queries
		theirs += published.Queries
	}
	if more := float64(queries) / float64(theirs); time > 0.5 || more > 1.05 {
		t.Errorf("%.2f times the published one's time with %.2f times its queries, want at most 0.5 and 1.05", time, more)
	}
}
