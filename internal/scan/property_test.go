package scan_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tablesweep/internal/key"
	"tablesweep/internal/proof/scantest"
	"tablesweep/internal/scan"
)

func TestRandomTables(t *testing.T) {
	t.Parallel()
	for i, s := range []scan.Strategy{
		scan.Serial{},
		scan.Prefix{},
		scan.Prefix{FirstSegments: 2},
		scan.Prefix{NextSegments: 3},
		scan.Prefix{FirstSegments: 3, NextSegments: 2},
	} {
		t.Run(fmt.Sprintf("%T%+v", s, s), func(t *testing.T) {
			t.Parallel()
			scantest.Check(t, s, 2000, uint64(i))
		})
	}
}

// Tables larger than the random ones, in segments from one row to the service's
// thousand, with every kind of bound.
func TestLargerTables(t *testing.T) {
	t.Parallel()
	bounds := []key.Bounds{
		{},
		{Prefix: "k"},
		{Prefix: "k1", Before: "k15"},
		{After: "k2"},
		{After: "k2", Before: "k20"},
		{After: "k2", Before: "k2"},
		{Prefix: "nothing"},
	}
	for name, rows := range map[string][]key.Key{
		"counters":   rowsOf(1000, func(i int) key.Key { return key.Key{Partition: fmt.Sprint("k", i)} }),
		"padded":     rowsOf(1000, func(i int) key.Key { return key.Key{Partition: fmt.Sprintf("k%012d", i)} }),
		"partitions": rowsOf(1000, func(i int) key.Key { return key.Key{Partition: fmt.Sprint("k", i%7), Row: fmt.Sprint(i)} }),
		"one giant":  rowsOf(1000, func(i int) key.Key { return key.Key{Partition: "k2", Row: fmt.Sprint(i)} }),
		"deep":       rowsOf(200, func(i int) key.Key { return key.Key{Partition: strings.Repeat("k", i)} }),
		"emoji":      rowsOf(1000, func(i int) key.Key { return key.Key{Partition: "k" + string(rune(0x1F300+i))} }),
	} {
		for _, segment := range []int{1, 7, 100, 1000} {
			t.Run(fmt.Sprintf("%s by %d", name, segment), func(t *testing.T) {
				t.Parallel()
				r := rand.New(rand.NewPCG(1, uint64(segment)))
				for i, s := range []scan.Strategy{scan.Serial{}, scan.Prefix{}, scan.Prefix{FirstSegments: 2, NextSegments: 5}} {
					c := scantest.Case{Rows: rows, Bounds: bounds[(i+segment)%len(bounds)], Segment: segment, Faulty: segment%2 == 1}
					scantest.CheckCase(t, s, c, r)
					c.Bounds, c.Churn = key.Bounds{}, 40
					scantest.CheckCase(t, s, c, r)
				}
			})
		}
	}
}

// Without expanding partitions every partition key is still seen.
func TestPrefixSeesEveryPartition(t *testing.T) {
	t.Parallel()
	for i := range 2000 {
		r := rand.New(rand.NewPCG(9, uint64(i)))
		c := scantest.Random(r)
		c.Bounds, c.Churn = key.Bounds{}, 0
		got, err := scantest.Run(scan.Prefix{KeepPartitions: true}, c, r)
		if err != nil {
			t.Fatalf("case %d: %v", i, err)
		}
		if got, want := partitions(got), partitions(c.Rows); !slices.Equal(got, want) {
			t.Fatalf("case %d: got partitions %q, want %q", i, got, want)
		}
	}
}

// narrowing sends tokens with other ranges than those that they were issued for.
type narrowing struct{ scan.Serial }

func (n narrowing) Advance(s scan.Step, p scan.Page) (scan.Decision, error) {
	d, err := n.Serial.Advance(s, p)
	for i := range d.Children {
		d.Children[i].Range.Low = &key.Bound{Key: p.Last().Partition}
	}
	return d, err
}

// Rows are read once all the same, but no document allows it.
func TestTokensOfOtherRangesAreRefused(t *testing.T) {
	t.Parallel()
	c := scantest.Case{Rows: names, Segment: 2}
	if rows, err := scantest.Run(narrowing{}, c, rand.New(rand.NewPCG(1, 1))); err == nil {
		t.Errorf("a scan with a token of another range reads %q", rows)
	}
}

func FuzzPrefix(f *testing.F) {
	f.Add([]byte(nil))
	f.Add([]byte("\x80\xff\x01\x40\xc0\x7f\x20\xe0\x90"))
	f.Fuzz(func(t *testing.T, data []byte) {
		scantest.Fuzz(t, scan.Prefix{}, data)
	})
}

func rowsOf(n int, row func(int) key.Key) []key.Key {
	var rows []key.Key
	for i := range n {
		rows = append(rows, row(i))
	}
	slices.SortFunc(rows, key.Key.Compare)
	return slices.Compact(rows)
}

func partitions(rows []key.Key) []string {
	var names []string
	for _, k := range rows {
		names = append(names, k.Partition)
	}
	return slices.Compact(names)
}
