package sweep_test

import (
	"math"
	"testing"

	"tablesweep/internal/copier"
	"tablesweep/internal/debian"
	"tablesweep/internal/emulator"
	"tablesweep/internal/emulator/emulatortest"
	"tablesweep/internal/scan"
	"tablesweep/internal/storage"
	"tablesweep/internal/sweep"
)

func TestSample(t *testing.T) {
	t.Parallel()
	packages, err := debian.Packages()
	if err != nil {
		t.Fatal(err)
	}
	rows := make([]storage.Entity, len(packages)/slowdown)
	for i := range rows {
		rows[i] = storage.Entity{Key: packages[i*slowdown].Key()}
	}
	_, a := emulatortest.NewAccount(t, emulator.Options{})
	s := sweep.Scan{Table: fill(t, a, "packages", rows), Segment: storage.PageRows / slowdown}
	// Never off by more than a factor of three, and exact if the sample sees all.
	for _, queries := range []int{5, 20, 40} {
		e, err := sweep.Sample(t.Context(), s, queries)
		if err != nil {
			t.Fatal(err)
		}
		off := math.Abs(math.Log(e.Rows / float64(len(rows))))
		t.Logf("%d queries: %.0f rows, %.0f transactions", queries, e.Rows, e.Batches)
		if e.Exact || e.Queries != queries || off > math.Log(3) {
			t.Errorf("%d queries: %+v, want about %d rows", queries, e, len(rows))
		}
	}
	s.Bounds = scan.Bounds{Prefix: "lib", Before: "libd"}
	want, batches := 0, 0
	for _, c := range (copier.Copier{}).Split(rows) {
		if k := c[0].Key; s.Bounds.Range().Contains(k) {
			batches++
			want += len(c)
		}
	}
	e, err := sweep.Sample(t.Context(), s, 40)
	if err != nil || !e.Exact || e.Rows != float64(want) || e.Batches < float64(batches) || e.Batches > float64(batches+e.Queries) {
		t.Errorf("%+v, %v; want %d rows, %d transactions", e, err, want, batches)
	}
}
