package engine

import "testing"

// A round reads no more than an invocation may hold, if pages are as large as before.
func TestAffordable(t *testing.T) {
	t.Parallel()
	var pieces []piece
	for range 10 {
		pieces = append(pieces, piece{step: &message{}}, piece{})
	}
	for _, tt := range []struct {
		queries, bytes, segments, want int
	}{
		{1, 1 << 10, 24, 10}, // all that there are
		{1, 1 << 10, 4, 3},
		{4, 4 << 10, 4, 0},
		{1, 4 << 20, 24, 2}, // of 12 MiB that are left; a page is believed to take a little more than 4
		{3, 15 << 20, 24, 1},
		{5, 17 << 20, 24, 0},
	} {
		r := reading{pieces: pieces, queries: tt.queries, bytes: tt.bytes}
		if got := r.affordable(tt.segments); got != tt.want {
			t.Errorf("%d queries with %d bytes of %d: may make %d more, want %d", tt.queries, tt.bytes, tt.segments, got, tt.want)
		}
	}
}
