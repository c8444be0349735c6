package survey_test

import (
	"fmt"
	"testing"
	"time"

	"tablesweep/internal/emulator"
	"tablesweep/internal/emulator/emulatortest"
	"tablesweep/internal/key"
	"tablesweep/internal/scan/estimate/survey"
	"tablesweep/internal/scan/keysets"
	"tablesweep/internal/storage"
)

// fill returns a table of rows with the keys, which are in table order.
func fill(t *testing.T, faults string, keys []key.Key) *storage.Table {
	t.Helper()
	_, a := emulatortest.NewAccount(t, emulator.Options{Faults: faults})
	table := a.Table("table")
	if err := table.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	b := table.Batch()
	for i, k := range keys {
		b.Add(storage.Op{Entity: storage.Entity{Key: k}})
		if i+1 == len(keys) || keys[i+1].Partition != k.Partition || b.Rows() == storage.MaxBatchRows {
			if err := b.Do(t.Context()); err != nil {
				t.Fatal(err)
			}
			b = table.Batch()
		}
	}
	return table
}

// TestRows counts a table that takes few queries, however its pages come.
func TestRows(t *testing.T) {
	t.Parallel()
	sets, err := keysets.MadeUp()
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range sets[5:8] {
		keys, err := set.Rows(1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, faults := range []string{"", "seed=1; short-page p=0.3; empty-page p=0.2"} {
			t.Run(set.Name+faults, func(t *testing.T) {
				t.Parallel()
				table := fill(t, faults, keys)
				e, _, err := survey.Rows(t.Context(), table, storage.Query{Top: 50}, survey.Effort{Queries: 1000, Time: time.Minute})
				if err != nil || !e.Exact || int(e.Rows.Low) != len(keys) {
					t.Errorf("%+v, %v; want exactly %d rows", e, err, len(keys))
				}
			})
		}
	}
}

// TestHurry ends a survey whose time is over, and counts only the range.
func TestHurry(t *testing.T) {
	t.Parallel()
	keys := make([]key.Key, 2000)
	for i := range keys {
		keys[i].Partition = fmt.Sprintf("%04d", i)
	}
	table := fill(t, "", keys)
	e, _, err := survey.Rows(t.Context(), table, storage.Query{Top: 1}, survey.Effort{Queries: 1_000_000, Time: 20 * time.Millisecond})
	if err != nil || e.Exact || e.Queries == 0 || e.Queries > 1900 {
		t.Errorf("%+v, %v; want some rows of %d by a few hundred queries", e, err, len(keys))
	}
	q := storage.Query{Range: key.Bounds{Prefix: "01", Before: "015"}.Range(), Top: 1}
	e, _, err = survey.Rows(t.Context(), table, q, survey.Effort{Queries: 1000, Time: time.Minute})
	if err != nil || !e.Exact || e.Rows.Low != 50 || e.Transactions.Low != 50 {
		t.Errorf("%+v, %v; want 50 rows", e, err)
	}
}
