package adaptive_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tablesweep/internal/adaptive"
	"tablesweep/internal/key"
	"tablesweep/internal/scan"
	"tablesweep/internal/scan/scantest"
)

// Random tables of odd keys, 20,000 of them, in short and empty pages, with rows
// that come and go. The tables are small for their pages, yet the strategy cuts them, since
// what it believes at the start makes it.
func TestRandomTables(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			scantest.Check(t, adaptive.Strategy{}, 5000/slowdown, seed)
		})
	}
}

// The same with hints, which may fit the table, be out of date or be nonsense.
func TestRandomTablesWithHints(t *testing.T) {
	t.Parallel()
	for i := range 3000 / slowdown {
		r := rand.New(rand.NewPCG(77, uint64(i)))
		c := scantest.Random(r)
		h := adaptive.Hints{Bounds: c.Bounds, Keys: someKeys(r, c.Rows)}
		if r.IntN(3) == 0 {
			h.Keys = someKeys(r, scantest.Random(r).Rows)
		}
		if !scantest.CheckCase(t, adaptive.Strategy{Hints: &h}, c, r) {
			t.Fatalf("case %d failed with hints %q", i, h.Keys)
		}
	}
}

func someKeys(r *rand.Rand, rows []key.Key) []key.Key {
	var keys []key.Key
	share := r.Float64()
	for _, k := range rows {
		if r.Float64() < share {
			keys = append(keys, k)
		}
	}
	return keys
}

// Tables of hundreds of pages, so that strands are cut many times over.
func TestLargerTables(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]func(i int) key.Key{
		"counter":  func(i int) key.Key { return key.Key{Partition: fmt.Sprint("k", i)} },
		"padded":   func(i int) key.Key { return key.Key{Partition: fmt.Sprintf("k%012d", i)} },
		"one":      func(i int) key.Key { return key.Key{Partition: "k2", Row: fmt.Sprintf("%06x", i*31)} },
		"big ones": func(i int) key.Key { return key.Key{Partition: fmt.Sprint("k", i%7), Row: fmt.Sprint(i)} },
		"big, 1":   func(i int) key.Key { return key.Key{Partition: fmt.Sprint("k", max(0, i-700)), Row: fmt.Sprint(i)} },
		"runs":     func(i int) key.Key { return key.Key{Partition: strings.Repeat("k", 1+i%300) + fmt.Sprint(i)} },
		"emoji": func(i int) key.Key {
			return key.Key{Partition: "k" + string([]rune{rune(0x1F300 + i%500), rune(0xE000 + i/500)})}
		},
		"long keys": func(i int) key.Key {
			return key.Key{Partition: "k" + strings.Repeat("<&>\u2028", 127) + fmt.Sprintf("%03x", i)}
		},
	} {
		for _, segment := range []int{5, 20} {
			t.Run(fmt.Sprintf("%s by %d", name, segment), func(t *testing.T) {
				t.Parallel()
				var rows []key.Key
				for i := range 1000 {
					rows = append(rows, row(i))
				}
				slices.SortFunc(rows, key.Key.Compare)
				r := rand.New(rand.NewPCG(5, uint64(segment)))
				for _, c := range []scantest.Case{
					{Rows: rows, Segment: segment},
					{Rows: rows, Segment: segment, Faulty: true, Churn: 100},
					{Rows: rows, Segment: segment, Bounds: scan.Bounds{Prefix: "k", After: "k1", Before: "k3"}},
				} {
					scantest.CheckCase(t, adaptive.Strategy{}, c, r)
				}
			})
		}
	}
}

func FuzzAdvance(f *testing.F) {
	f.Add([]byte(nil))
	f.Add([]byte("\x80\xff\x01\x40\xc0\x7f\x20\xe0\x90"))
	f.Fuzz(func(t *testing.T, data []byte) {
		scantest.Fuzz(t, adaptive.Strategy{}, data)
	})
}
