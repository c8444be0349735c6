package sweep_test

import (
	"fmt"
	"testing"
	"time"

	"tablesweep/internal/emulator"
	"tablesweep/internal/emulator/emulatortest"
	"tablesweep/internal/scan"
	"tablesweep/internal/splitbench"
	"tablesweep/internal/storage"
	"tablesweep/internal/sweep"
)

// TestSample counts a table that takes few queries, however its pages come.
func TestSample(t *testing.T) {
	t.Parallel()
	sets, err := splitbench.Sets()
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range sets[5:8] {
		keys, err := set.Rows(2000 / slowdown)
		if err != nil {
			t.Fatal(err)
		}
		rows := make([]storage.Entity, len(keys))
		for i, k := range keys {
			rows[i] = storage.Entity{Key: k}
		}
		for _, faults := range []string{"", "seed=1; short-page p=0.3; empty-page p=0.2"} {
			t.Run(set.Name+faults, func(t *testing.T) {
				t.Parallel()
				_, a := emulatortest.NewAccount(t, emulator.Options{Faults: faults})
				s := sweep.Scan{Table: fill(t, a, "table", rows), Segment: 100 / slowdown}
				e, _, err := sweep.Sample(t.Context(), s, 1000, time.Minute)
				if err != nil || !e.Exact() || int(e.Rows.Low) != len(rows) {
					t.Errorf("%+v, %v; want exactly %d rows", e, err, len(rows))
				}
			})
		}
	}
}

// TestSampleHurries ends a sample whose time is over, and counts only the bounds.
func TestSampleHurries(t *testing.T) {
	t.Parallel()
	_, a := emulatortest.NewAccount(t, emulator.Options{})
	rows := make([]storage.Entity, 2000)
	for i := range rows {
		rows[i].Key.Partition = fmt.Sprintf("%04d", i)
	}
	s := sweep.Scan{Table: fill(t, a, "table", rows), Segment: 1}
	e, _, err := sweep.Sample(t.Context(), s, 1_000_000, 0)
	if err != nil || e.Exact() || e.Queries > 800 {
		t.Errorf("%+v, %v; want some rows of %d by a few hundred queries", e, err, len(rows))
	}
	s.Bounds = scan.Bounds{Prefix: "01", Before: "015"}
	e, _, err = sweep.Sample(t.Context(), s, 1000, time.Minute)
	if err != nil || !e.Exact() || e.Rows.Low != 50 || e.Transactions.Low != 50 {
		t.Errorf("%+v, %v; want 50 rows", e, err)
	}
}
