package rowmap

import (
	"context"
	"math/rand/v2"
	"testing"

	"tablesweep/internal/key"
	"tablesweep/internal/proof"
	"tablesweep/internal/storage"
)

// TestInstructionsOfEqualRows checks that the number of instructions for a row does not depend on earlier rows. If the context of a row ends at
// any instruction, the next row must not be affected.
func TestInstructionsOfEqualRows(t *testing.T) {
	t.Parallel()
	m, err := New(Options{Program: `select(.RowKey | test("[a-z]+") | not) | .N as $n | (.RowKey = ("a", "b")), (label $out | range(9) | if . == $n then break $out else empty end)`})
	proof.Must(t, err)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	left := map[int64]int{}
	r := rand.New(rand.NewPCG(1, 48))
	for i := range 3000 {
		n := r.Int64N(9)
		row := storage.Entity{Key: key.Key{Partition: "p"}, Properties: []storage.Property{storage.Int64Property("N", n)}}
		if r.IntN(3) == 0 {
			_, _ = m.Rows(gone, row)
			continue
		}
		ctx, end := context.WithCancel(t.Context())
		if rows, err := m.Rows(ctx, row); err != nil || len(rows) != 2 {
			t.Fatalf("row %d results in %d rows, error %v", i, len(rows), err)
		}
		end()
		b, _ := m.idle.Get().(*budget)
		if b == nil || b.Context != ctx { // the map has dropped the run of this row
			continue
		}
		if before, known := left[n]; known && b.steps != before {
			t.Fatalf("after row %d, %d instructions remain, but after an equal row there were %d", i, b.steps, before)
		}
		left[n] = b.steps
		m.idle.Put(b)
	}
}
