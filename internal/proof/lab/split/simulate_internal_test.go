package split

import "testing"

// The bounds of scans with fan-out 4 and one query an invocation are known.
func TestSchedule(t *testing.T) {
	t.Parallel()
	chain := clairvoyant(1, 4)
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
		{"one query", clairvoyant(1, 4), schedule{workers: 64, segments: 1, hop: 3}, 1, 1},
		{"fan-out 4", clairvoyant(5, 4), schedule{workers: 64, segments: 1, hop: 3}, 5, 5},
		{"fan-out 4, 2 workers", clairvoyant(5, 4), schedule{workers: 2, segments: 1, hop: 3}, 6, 5},
		{"100 pages", clairvoyant(100, 4), schedule{workers: 64, segments: 1, hop: 3}, 17, 100},
		{"1,000 pages", clairvoyant(1000, 4), schedule{workers: 64, segments: 1, hop: 3}, 31, 1000},
		{"1,000 pages, long hops", clairvoyant(1000, 4), schedule{workers: 64, segments: 1, hop: 10}, 66, 1000},
		{"1,000 pages, few workers", clairvoyant(1000, 4), schedule{workers: 8, segments: 1, hop: 3}, 135, 1000},
		{"chain", chain, schedule{workers: 64, segments: 1, hop: 3}, 397, 100},
		{"chain by 4", chain, schedule{workers: 64, segments: 4, hop: 3}, 100 + 24*3, 25},
		{"chain by 4, wide", chain, schedule{workers: 64, segments: 4, hop: 3, wide: true}, 100 + 24*3, 25},
		{"chain in one invocation", chain, schedule{workers: 1, segments: unlimited, hop: 3}, 100, 1},
		// First one query, then three of its four children concurrently. The fourth child and the children of the three, twelve at most, are messages. Eight
		// queries are left, three of which are children of the fourth child.
		{"fan-out 4, wide", clairvoyant(12, 4), schedule{workers: 64, segments: 4, hop: 3, wide: true}, 2 + 3 + 1, 1 + 8},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			time, invocations := tt.x.play(tt.root)
			if time != tt.time || invocations != tt.invocations {
				t.Errorf("got time %d and %d invocations, want %d and %d", time, invocations, tt.time, tt.invocations)
			}
		})
	}
}
