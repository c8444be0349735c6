package keysets

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"tablesweep/internal/key"
)

// The table's binary search finds what the range contains.
func TestTableFindsRanges(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 3))
	text := func() string { return fmt.Sprint(r.IntN(6)) }
	bound := func() *key.Bound {
		if r.IntN(4) == 0 {
			return nil
		}
		return &key.Bound{Key: text(), Open: r.IntN(2) == 0}
	}
	for range 5000 {
		var rows Table
		for range r.IntN(30) {
			rows.Keys = append(rows.Keys, key.Key{Partition: text(), Row: text()})
		}
		slices.SortFunc(rows.Keys, key.Key.Compare)
		rows.Keys = slices.Compact(rows.Keys)
		x := key.Range{Low: bound(), High: bound()}
		if r.IntN(2) == 0 {
			p := text()
			x.Partition = &p
		}
		first, end := rows.within(x)
		for i, k := range rows.Keys {
			if in := first <= i && i < end; in != x.Contains(k) {
				t.Fatalf("range %+v, rows %q: rows %d to %d, but row %d is in the range: %v", x, rows.Keys, first, end, i, x.Contains(k))
			}
		}
	}
}
