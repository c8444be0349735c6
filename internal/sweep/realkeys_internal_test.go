package sweep

import (
	"bufio"
	"compress/gzip"
	"flag"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"tablesweep/internal/key"
	"tablesweep/internal/scan/adaptive"
	"tablesweep/internal/scan/bench"
	"tablesweep/internal/storage"
)

// Flags of TestStealingOnRealKeys.
var (
	keys = flag.String("keys", "", "a directory of key sets, NAME.tsv.gz with lines of partition key, tab, row key; the samples of package bench if empty")
	wall = flag.Bool("wall", false, "in real time")
)

// A keySet is a table and the rows of its pages.
type keySet struct {
	name    string
	rows    func() ([]key.Key, error)
	segment int
}

func keySets(t *testing.T) []keySet {
	t.Helper()
	var sets []keySet
	if *keys == "" {
		for _, s := range bench.RealSets("") {
			sets = append(sets, keySet{s.Name, func() ([]key.Key, error) { return s.Rows(math.MaxInt) }, s.Page})
		}
		return sets
	}
	files, err := filepath.Glob(filepath.Join(*keys, "*.tsv.gz"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		sets = append(sets, keySet{strings.TrimSuffix(filepath.Base(f), ".tsv.gz"), func() ([]key.Key, error) { return readKeys(f) }, 1000})
	}
	return sets
}

func readKeys(path string) ([]key.Key, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	var rows []key.Key
	s := bufio.NewScanner(z)
	for s.Scan() {
		partition, row, _ := strings.Cut(s.Text(), "\t")
		rows = append(rows, key.Key{Partition: partition, Row: row})
	}
	slices.SortFunc(rows, key.Key.Compare)
	return slices.Compact(rows), s.Err()
}

// 64 workers scan real tables in virtual time, by queries of a second. Figures are multiples of what a
// scan takes that knows where all rows are.
func TestStealingOnRealKeys(t *testing.T) {
	t.Parallel()
	sets := keySets(t)
	mean := 0.0
	inTime := synctest.Test
	if *wall {
		inTime = func(t *testing.T, f func(*testing.T)) { f(t) }
	}
	for _, s := range sets {
		inTime(t, func(t *testing.T) {
			found, err := s.rows()
			if err != nil {
				t.Fatal(err)
			}
			rows := make([]storage.Entity, len(found))
			for i, k := range found {
				rows[i].Key = k
			}
			_, source := openTree(t, rows, "latency=1s")
			took, totals := count(t, Spec{Table: source, Strategy: adaptive.Strategy{}, Segment: s.segment, Select: []string{}}, 64)
			pages := (len(rows) + s.segment - 1) / s.segment
			ratio, queries := took.Seconds()/float64(boundFor(pages, 64)), float64(totals.Queries)/float64(pages)
			t.Logf("%s: %d pages in %v: %.2f times the bound, %.2f queries a page", s.name, pages, took, ratio, queries)
			if totals.Rows != int64(len(rows)) || ratio > 3.5 {
				t.Errorf("%s: %d rows, %.2f times the bound; want %d, 3.5 at most", s.name, totals.Rows, ratio, len(rows))
			}
			if whole := s.segment == storage.PageRows; whole && pages >= 1000 && (ratio > 1.8 || queries > 2) {
				t.Errorf("%s: %.2f times the bound by %.2f queries a page; want 1.8 and 2 at most", s.name, ratio, queries)
			}
			mean += ratio / float64(len(sets))
		})
	}
	t.Logf("%.2f times the bound on the mean", mean)
	if mean > 2.3 {
		t.Errorf("%.2f times the bound on the mean, want 2.3 at most", mean)
	}
}
