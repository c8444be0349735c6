package bench_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"tablesweep/internal/key"
	"tablesweep/internal/scan/bench"
)

func allSets(t testing.TB) []bench.Set {
	t.Helper()
	sets, err := bench.Sets()
	if err != nil {
		t.Fatal(err)
	}
	return sets
}

func rowsOf(t testing.TB, s bench.Set, n int) []key.Key {
	t.Helper()
	rows, err := s.Rows(n)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// fixed returns a set of exactly these rows.
func fixed(name string, rows []key.Key) bench.Set {
	return bench.Set{Name: name, Page: 1000, Rows: func(int) ([]key.Key, error) { return rows, nil }}
}

func TestSets(t *testing.T) {
	t.Parallel()
	for _, s := range allSets(t) {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			const n = 10_000
			rows := rowsOf(t, s, n)
			if len(rows) < n*8/10 || len(rows) > n {
				t.Errorf("got %d rows, want about %d", len(rows), n)
			}
			for i := 1; i < len(rows); i++ {
				if rows[i-1].Compare(rows[i]) >= 0 {
					t.Fatalf("row %q follows %q", rows[i], rows[i-1])
				}
			}
			if again := rowsOf(t, s, n); !slices.Equal(again, rows) {
				t.Error("a second call returns other rows")
			}
		})
	}
}

// targets are what the adaptive strategy has to reach, on the mean of the sets.
type targets struct {
	queries, worstSet, empty float64 // ÷ optimum, same, share
	hinted, hinted80         float64 // queries ÷ optimum
	// Makespan with 64 workers and hop 3: with one query an invocation against
	// the published scan likewise, with four against the published scan that
	// enumerates a level an invocation.
	time, time4  float64
	onePartition float64 // makespan of the slowest, against serial
}

// check fails if the contenders' means miss a target.
func (x targets) check(t testing.TB, results []bench.Result, rows int) {
	t.Helper()
	of := map[bench.Contender]bench.Summary{}
	for _, c := range bench.Contenders() {
		of[c] = bench.Summarize(results, c, rows)
	}
	one, four := of[bench.Adaptive], of[bench.Adaptive4]
	slowest := 0.0
	for i, r := range results {
		if strings.HasPrefix(r.Set, "one-") && r.Contender == bench.Serial {
			of := bench.Summarize(results[i:i+len(bench.Contenders())], bench.Adaptive, rows)
			slowest = max(slowest, of.Makespan(64, 3)/float64(bench.Summarize(results[i:i+1], bench.Serial, rows).Makespan(64, 3)))
		}
	}
	for _, m := range []struct {
		name      string
		got, most float64
	}{
		{"queries", one.Queries, x.queries},
		{"queries of the worst set", one.WorstSet, x.worstSet},
		{"empty queries", one.Empty, x.empty},
		{"queries with hints", of[bench.Hinted].Queries, x.hinted},
		{"queries with hints of 80 %", of[bench.Hinted80].Queries, x.hinted80},
		{"time against prefix", one.Makespan(64, 3) / of[bench.Prefix].Makespan(64, 3), x.time},
		{"time of 4 an invocation against prefix by level", four.Makespan(64, 3) / of[bench.PrefixLevel].Makespan(64, 3), x.time4},
		{"time of one partition against serial", slowest, x.onePartition},
	} {
		t.Logf("%s: %.4f, at most %.4f", m.name, m.got, m.most)
		if m.got > m.most {
			t.Errorf("%d rows: %s is %.4f, want at most %.4f", rows, m.name, m.got, m.most)
		}
	}
}

// compareAll runs every contender over every set, a set on each processor at a time.
func compareAll(t testing.TB, sets []bench.Set, rows int) []bench.Result {
	t.Helper()
	results := make([][]bench.Result, len(sets))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, s := range sets {
		g.Go(func() error {
			got, err := bench.Compare(s, rows)
			if err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
			results[i] = got
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	return slices.Concat(results...)
}

// The targets for 1 million rows are checked by the benchmark. These, for small
// tables, are what has been reached: they are to notice when something breaks.
func TestSplitOfSmallTables(t *testing.T) {
	t.Parallel()
	const rows = 30_000
	targets{queries: 1.45, worstSet: 2.5, empty: 0.14, hinted: 1.2, hinted80: 1.2, time: 0.8, time4: 0.75, onePartition: 0.6}.
		check(t, compareAll(t, allSets(t), rows), rows)
}

// BenchmarkSplit compares the strategies and fails if a target is missed. It
// counts, so run it once: go test -bench Split -benchtime 1x.
func BenchmarkSplit(b *testing.B) {
	for _, bb := range []struct {
		rows    int
		targets targets
	}{
		{1_000_000, targets{queries: 1.25, worstSet: 2.4, empty: 0.08, hinted: 1.12, hinted80: 1.12,
			time: 0.24, time4: 0.46, onePartition: 1.0 / 15}},
	} {
		b.Run(fmt.Sprint(bb.rows), func(b *testing.B) {
			var results []bench.Result
			for b.Loop() {
				results = compareAll(b, allSets(b), bb.rows)
			}
			bb.targets.check(b, results, bb.rows)
			s := bench.Summarize(results, bench.Adaptive, bb.rows)
			b.ReportMetric(s.Queries, "queries/optimum")
			b.ReportMetric(s.Makespan(64, 3), "queries/64workers")
		})
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	var results []bench.Result
	for _, rows := range []int{1, 5000} {
		plain := make([]key.Key, rows)
		for i := range plain {
			plain[i] = key.Key{Partition: fmt.Sprintf("%06d", i)}
		}
		r, err := bench.Compare(fixed("plain", plain), rows)
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, r...)
	}
	var means, sets strings.Builder
	if err := bench.WriteMarkdown(&means, results, 5000); err != nil {
		t.Fatal(err)
	}
	// 5 pages one after the other: 5 queries and 4 hops.
	if want := "| serial | 1.000 (1.00) | 0.0 % | 1.00 | 17 | 45 | 17 | 45 | 17 | 45 | 17 | 45 |\n"; !strings.Contains(means.String(), want) {
		t.Errorf("got\n%swant a line\n%s", means.String(), want)
	}
	if err := bench.WriteSets(&sets, results); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(sets.String(), "| plain |"); got != 2 {
		t.Errorf("got %d sets, want 2:\n%s", got, sets.String())
	}
}
