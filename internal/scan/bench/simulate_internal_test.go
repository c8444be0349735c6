package bench

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"tablesweep/internal/key"
)

// Known bounds of a scan with fan-out 4 and one query an invocation.
func TestSchedule(t *testing.T) {
	t.Parallel()
	chain := clairvoyant(1)
	for range 99 {
		next := &recorded{children: []*recorded{chain}}
		next.next = chain
		chain = next
	}
	for _, tt := range []struct {
		name              string
		root              *recorded
		x                 schedule
		time, invocations int
	}{
		{"one query", clairvoyant(1), schedule{workers: 64, segments: 1, hop: 3}, 1, 1},
		{"fan-out 4", clairvoyant(5), schedule{workers: 64, segments: 1, hop: 3}, 5, 5},
		{"fan-out 4, 2 workers", clairvoyant(5), schedule{workers: 2, segments: 1, hop: 3}, 6, 5},
		{"100 pages", clairvoyant(100), schedule{workers: 64, segments: 1, hop: 3}, 17, 100},
		{"1,000 pages", clairvoyant(1000), schedule{workers: 64, segments: 1, hop: 3}, 31, 1000},
		{"1,000 pages, long hops", clairvoyant(1000), schedule{workers: 64, segments: 1, hop: 10}, 66, 1000},
		{"1,000 pages, few workers", clairvoyant(1000), schedule{workers: 8, segments: 1, hop: 3}, 135, 1000},
		{"chain", chain, schedule{workers: 64, segments: 1, hop: 3}, 397, 100},
		{"chain by 4", chain, schedule{workers: 64, segments: 4, hop: 3}, 100 + 24*3, 25},
		{"chain by 4, wide", chain, schedule{workers: 64, segments: 4, hop: 3, wide: true}, 100 + 24*3, 25},
		{"chain at once", chain, schedule{workers: 1, segments: unlimited, hop: 3}, 100, 1},
		// A query, then three of its four children at once. The fourth child and their children, up to
		// twelve, are messages: eight queries are left, three of them children of the fourth child.
		{"fan-out 4, wide", clairvoyant(12), schedule{workers: 64, segments: 4, hop: 3, wide: true}, 2 + 3 + 1, 1 + 8},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			time, invocations := tt.x.run(tt.root)
			if time != tt.time || invocations != tt.invocations {
				t.Errorf("got time %d, %d invocations, want %d, %d", time, invocations, tt.time, tt.invocations)
			}
		})
	}
}

// The table's binary search finds what the range contains.
func TestSpan(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 3))
	part := func() string { return fmt.Sprint(r.IntN(6)) }
	bound := func() *key.Bound {
		if r.IntN(4) == 0 {
			return nil
		}
		return &key.Bound{Key: part(), Open: r.IntN(2) == 0}
	}
	for range 5000 {
		var rows table
		for range r.IntN(30) {
			rows.keys = append(rows.keys, key.Key{Partition: part(), Row: part()})
		}
		slices.SortFunc(rows.keys, key.Key.Compare)
		rows.keys = slices.Compact(rows.keys)
		x := key.Range{Low: bound(), High: bound()}
		if r.IntN(2) == 0 {
			p := part()
			x.Partition = &p
		}
		first, end := rows.span(x)
		for i, k := range rows.keys {
			if in := first <= i && i < end; in != x.Contains(k) {
				t.Fatalf("range %+v, rows %q: span %d to %d, but row %d is in the range: %v", x, rows.keys, first, end, i, x.Contains(k))
			}
		}
	}
}
