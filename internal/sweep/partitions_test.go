package sweep_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/emulator"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/sweep"
)

// Each partition key comes once, in order, and the rows behind its first page are stepped over: about
// a query for each partition, however many pages the partition has.
func TestPartitions(t *testing.T) {
	t.Parallel()
	em, a := emulatortest.NewAccount(t, emulator.Options{})
	rows := someRows(30, 40)
	s := sweep.Spec{Source: emulatortest.Table(t, a, "source", rows), PageRows: 10}
	em.ResetCounts()
	var got, want []string
	for i := 0; i < len(rows); i += 40 {
		want = append(want, rows[i].Key.Partition)
	}
	totals, err := sweep.Partitions(t.Context(), s, sweep.Options{}, func(p string) error {
		got = append(got, p)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if requests := em.Counts().TableTransactions(); totals.Rows > 300 || requests > 70 {
		t.Errorf("read %d rows by %d requests, want 300 and 70 at most", totals.Rows, requests)
	}
	enough := errors.New("enough")
	if _, err := sweep.Partitions(t.Context(), s, sweep.Options{}, func(string) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("got %v, want the caller's error", err)
	}
}
