package scale

import (
	"testing"

	"tablesweep/internal/key"
)

// Rows are numbered in key order, and their keys lead back to their numbers.
func TestRowsAreInOrder(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{1, 7} {
		r := rows{5000, size}
		var last key.Key
		for n := range r.count {
			k := r.key(n)
			if n > 0 && last.Compare(k) >= 0 {
				t.Fatalf("row %d has the key %v, but the row before has %v", n, k, last)
			}
			last = k
			if got := r.from(k); got != n {
				t.Fatalf("key %v of row %d is found as row %d", k, n, got)
			}
		}
	}
	big := rows{1_000_000_000, 1}
	for _, n := range []int64{0, 1, 499_999_999, 999_999_999} {
		if got := big.from(big.key(n)); got != n {
			t.Errorf("row %d of a billion is found as row %d", n, got)
		}
	}
	if got := (rows{1, 1}).from(key.Key{}); got != 0 {
		t.Errorf("the only row is found as row %d", got)
	}
}
