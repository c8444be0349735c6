package bench_test

import (
	"fmt"
	"math"
	"testing"

	"tablesweep/internal/key"
	"tablesweep/internal/scan/bench"
)

// Parts of real tables are scanned no worse than docs/measurements.md says; each row of a part once, which
// CompareParts checks.
func TestSplitOfParts(t *testing.T) {
	t.Parallel()
	samples, _ := realSets(t)
	var all []bench.PartResult
	for _, s := range samples {
		results, err := bench.CompareParts(s, math.MaxInt)
		if err != nil {
			t.Fatalf("%s: %v", s.Name, err)
		}
		all = append(all, results...)
	}
	for part, most := range map[string]float64{"--after": 0.63, "--prefix": 0.5, "filter": 0.85} {
		sum := 0.0
		for _, r := range all {
			if r.Part == part {
				sum += r.PerPrefix / float64(len(samples))
			}
		}
		if sum > most {
			t.Errorf("%s: %.3f times the published scan's time on the mean, want %.2f at most", part, sum, most)
		}
	}
}

// Parts of a table whose parts are known.
func TestParts(t *testing.T) {
	t.Parallel()
	rows := make([]key.Key, 100_000)
	for i := range rows {
		rows[i].Partition = fmt.Sprintf("%06d", i)
	}
	results, err := bench.CompareParts(fixed("counter", rows), len(rows))
	if err != nil {
		t.Fatal(err)
	}
	// Behind row 50,000 there are 49,999; all rows share a zero; the filter lets 1,000 rows through, in pages that
	// end after 50,000 rows.
	for i, want := range []bench.PartResult{{Part: "--after", Pages: 50}, {Part: "--prefix", Pages: 100}, {Part: "filter", Pages: 2}} {
		if results[i].Part != want.Part || results[i].Pages != want.Pages {
			t.Errorf("got %s with %d pages, want %s with %d", results[i].Part, results[i].Pages, want.Part, want.Pages)
		}
	}
}
