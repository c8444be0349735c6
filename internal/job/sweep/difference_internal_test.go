package sweep

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/key"
)

// Whatever the order in which differences are found, the first ones in table order are listed,
// and those that were kept on the way are enough to list them after a resume.
func TestDifferencesThatAreListed(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		all := make([]Difference, r.IntN(100))
		for i := range all {
			all[i] = Difference{Kind: Extra, Key: key.Key{Partition: fmt.Sprintf("%03d", i)}}
		}
		d := differences{most: 1 + r.IntN(30)}
		var kept []Difference
		order := r.Perm(len(all))
		for part := range slices.Chunk(order, 1+r.IntN(10)) {
			var found []Difference
			for _, i := range part {
				found = append(found, all[i])
			}
			kept = append(kept, d.add(found)...)
			if len(d.all) > 2*d.most {
				t.Fatalf("seed %d: %d are kept for a list of %d", seed, len(d.all), d.most)
			}
		}
		want := append([]Difference(nil), all[:min(len(all), d.most)]...)
		if diff := cmp.Diff(want, d.sorted()); diff != "" {
			t.Fatalf("seed %d (-want +got)\n%s", seed, diff)
		}
		resumed := differences{most: d.most}
		resumed.add(kept)
		if diff := cmp.Diff(want, append([]Difference(nil), resumed.sorted()...)); diff != "" {
			t.Fatalf("seed %d, after a resume (-want +got)\n%s", seed, diff)
		}
		if len(all) == 100 && len(kept) == len(all) {
			t.Fatalf("seed %d: a list of %d kept everything", seed, d.most)
		}
	}
}
