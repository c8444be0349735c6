package split_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"tablesweep/internal/proof"
	"tablesweep/internal/proof/keysets"
	"tablesweep/internal/proof/lab/split"
	"tablesweep/internal/proof/testsize"
)

func madeUp(t testing.TB) []keysets.Set {
	t.Helper()
	sets, err := keysets.MadeUp()
	proof.Must(t, err)
	return sets
}

// targets are the figures that the adaptive strategy must reach, as means of the sets.
type targets struct {
	queries, worstSet, empty float64 // the first two divided by the optimum, the last as a share
	hinted, hinted80         float64 // queries divided by the optimum
	// The makespan with 64 workers and hop 3. With one query an invocation, it is compared with the published scan with one query an invocation. With four,
	// it is compared with the published scan that reads a level in one invocation.
	time, time4  float64
	onePartition float64 // the slowest makespan, compared with serial
}

// check fails the test if the contenders' means miss a target.
func (x targets) check(t testing.TB, results []split.Result, rows int) {
	t.Helper()
	of := map[split.Contender]split.Summary{}
	for _, c := range split.Contenders() {
		of[c] = split.Summarize(results, c, rows)
	}
	one, four := of[split.Adaptive], of[split.Adaptive4]
	slowest := 0.0
	for i, r := range results {
		if strings.HasPrefix(r.Set, "one-") && r.Contender == split.Serial {
			of := split.Summarize(results[i:i+len(split.Contenders())], split.Adaptive, rows)
			slowest = max(slowest, of.Makespan(64, 3)/float64(split.Summarize(results[i:i+1], split.Serial, rows).Makespan(64, 3)))
		}
	}
	for _, m := range []struct {
		name      string
		got, most float64
	}{
		{"queries", one.Queries, x.queries},
		{"queries of the worst set", one.WorstSet, x.worstSet},
		{"empty queries", one.Empty, x.empty},
		{"queries with hints", of[split.Hinted].Queries, x.hinted},
		{"queries with hints of 80 %", of[split.Hinted80].Queries, x.hinted80},
		{"time against prefix", one.Makespan(64, 3) / of[split.Prefix].Makespan(64, 3), x.time},
		{"time of 4 an invocation against prefix by level", four.Makespan(64, 3) / of[split.Published].Makespan(64, 3), x.time4},
		{"time of one partition against serial", slowest, x.onePartition},
	} {
		t.Logf("%s: %.4f, at most %.4f", m.name, m.got, m.most)
		if m.got > m.most {
			t.Errorf("%d rows: %s is %.4f, want at most %.4f", rows, m.name, m.got, m.most)
		}
	}
}

// compareAll scans every set with every contender, one set at a time on each processor.
func compareAll(t testing.TB, sets []keysets.Set, rows int) []split.Result {
	t.Helper()
	results := make([][]split.Result, len(sets))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, s := range sets {
		g.Go(func() error {
			got, err := split.Compare(s, rows)
			if err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
			results[i] = got
			return nil
		})
	}
	proof.Must(t, g.Wait())
	return slices.Concat(results...)
}

// TestSplitOfSmallTables checks the present figures for small tables, so that it fails if a change makes them worse. The benchmark checks the targets for 1
// million rows.
func TestSplitOfSmallTables(t *testing.T) {
	testsize.InFull(t)
	t.Parallel()
	const rows = 30_000
	targets{queries: 1.85, worstSet: 2.45, empty: 0.2, hinted: 1.2, hinted80: 1.2, time: 0.45, time4: 0.6, onePartition: 0.4}.
		check(t, compareAll(t, madeUp(t), rows), rows)
}

// BenchmarkSplit compares the strategies, and fails if a target is missed. It counts queries, so run it once: go test -bench Split -benchtime 1x.
func BenchmarkSplit(b *testing.B) {
	const rows = 1_000_000
	var results []split.Result
	for b.Loop() {
		results = compareAll(b, madeUp(b), rows)
	}
	targets{queries: 1.43, worstSet: 2.1, empty: 0.08, hinted: 1.1, hinted80: 1.1, time: 0.17, time4: 0.4, onePartition: 1.0 / 33}.
		check(b, results, rows)
	s := split.Summarize(results, split.Adaptive, rows)
	b.ReportMetric(s.Queries, "queries/optimum")
	b.ReportMetric(s.Makespan(64, 3), "queries/64workers")
}

func TestReport(t *testing.T) {
	t.Parallel()
	guids := madeUp(t)[:1]
	results := append(compareAll(t, guids, 1), compareAll(t, guids, 5000)...)
	means, sets := split.MeansTable(results, 5000), split.SetsTable(results)
	// A serial scan reads 5 pages one after the other, with 5 queries and 4 hops.
	if want := "| serial | 1.000 (1.00) | 0.0 % | 1.00 | 17 | 45 | 17 | 45 | 17 | 45 | 17 | 45 |\n"; !strings.Contains(means, want) {
		t.Errorf("got\n%s\nwant this line in it:\n%s", means, want)
	}
	if got := strings.Count(sets, "| guid |"); got != 2 {
		t.Errorf("got %d sets, want 2:\n%s", got, sets)
	}
}
