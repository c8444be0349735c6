package sweep

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/key"
)

// The first differences in table order are listed, whatever the order in which they are found. The differences that were kept while the sweep ran are
// enough to make the same list after a resume.
func TestFirstDifferencesAreListed(t *testing.T) {
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
				t.Fatalf("seed %d: %d differences are kept for a list of %d", seed, len(d.all), d.most)
			}
		}
		want := append([]Difference(nil), all[:min(len(all), d.most)]...)
		if diff := cmp.Diff(want, d.first()); diff != "" {
			t.Fatalf("seed %d (-want +got)\n%s", seed, diff)
		}
		resumed := differences{most: d.most}
		resumed.add(kept)
		if diff := cmp.Diff(want, append([]Difference(nil), resumed.first()...)); diff != "" {
			t.Fatalf("seed %d, after a resume (-want +got)\n%s", seed, diff)
		}
		if len(all) == 100 && len(kept) == len(all) {
			t.Fatalf("seed %d: all differences are kept for a list of %d", seed, d.most)
		}
	}
}
