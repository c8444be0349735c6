package sweep_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/job/sweep"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/scantest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/storage"
)

// TestPartitionsOfRandomTables lists the partitions of random tables with unusual keys, in short and empty pages. Each partition within the bounds
// must come once, in order. An error of the caller must end the sweep.
func TestPartitionsOfRandomTables(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	em, a := emulatortest.NewAccount(t, emulator.Options{})
	met := 0
	for i := range testsize.Of(40, 400) {
		r := rand.New(rand.NewPCG(44, uint64(i)))
		c := scantest.Random(r)
		rows := make([]storage.Entity, len(c.Rows))
		var want, got []string
		for i, k := range c.Rows {
			rows[i].Key = k
		}
		source := emulatortest.Table(t, a, fmt.Sprint("source", i), rows)
		for _, row := range emulatortest.Rows(t, source) { // the service refuses control characters
			if k := row.Key; c.Bounds.Range().Contains(k) && (len(want) == 0 || want[len(want)-1] != k.Partition) {
				want = append(want, k.Partition)
			}
		}
		met += len(want)
		if c.Faulty {
			proof.Must(t, em.SetFaults("short-page p=0.3; empty-page p=0.2"))
		}
		s := sweep.Spec{Source: source, Bounds: c.Bounds, PageRows: c.Segment}
		if _, err := sweep.Partitions(t.Context(), s, sweep.Options{}, func(p string) error {
			got = append(got, p)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("case %d: (-want +got)\n%s", i, diff)
		}
		proof.Must(t, em.SetFaults(""))
		enough := errors.New("enough")
		_, err := sweep.Partitions(t.Context(), s, sweep.Options{}, func(string) error { return enough })
		if errors.Is(err, enough) != (len(want) > 0) {
			t.Fatalf("case %d: got %v, want the caller's error", i, err)
		}
	}
	if met < 100 {
		t.Errorf("%d partitions in all", met)
	}
}
