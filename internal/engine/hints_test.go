package engine_test

import (
	"fmt"
	"testing"

	"tablesweep/internal/emulator"
	"tablesweep/internal/engine"
	"tablesweep/internal/key"
	"tablesweep/internal/ledger"
	"tablesweep/internal/storage"
)

// A scan leaves hints for the next one of the same rows, which makes fewer queries
// and stays exact, also when the table has changed.
func TestHintsForTheNextScan(t *testing.T) {
	t.Parallel()
	w := newWorld(t, emulator.Options{})
	rows := plainRows(300, 6)
	w.fill("Source", rows)
	r := copyRequest("Source", "Target")
	r.SegmentSize = 10
	const pages = 180
	count := func(r engine.Request, want int64) int64 {
		t.Helper()
		s := w.run(r)
		if s.State != ledger.Succeeded || s.Rows.Scanned != want || s.Progress != nil {
			t.Errorf("status %+v, want %d rows", s, want)
		}
		return s.Queries
	}
	first := count(r, 1800)
	second := count(r, 1800)
	if second >= first || float64(second) > 1.15*pages {
		t.Errorf("%d queries without hints, %d with; want at most 1.15 times %d pages", first, second, pages)
	}
	w.equalTables("Source", "Target")

	filtered := r
	filtered.Filter = "Number ge 3L"
	if count(filtered, 900) < first/2 {
		t.Error("a scan with a filter was steered by hints for all rows")
	}
	// What the hints say is no longer so: rows are gone from the first half, and
	// others stand behind all.
	for i := range 20 {
		var ops []storage.Op
		for rk := range 6 {
			ops = append(ops, storage.Op{Kind: storage.Delete, Entity: storage.Entity{Key: rows[i*6+rk].Key}})
		}
		if err := w.account.Table("Source").Write(t.Context(), ops...); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 200 {
		e := storage.Entity{Key: key.Key{Partition: fmt.Sprintf("z%03d", i)}}
		if err := w.account.Table("Source").Write(t.Context(), storage.Op{Kind: storage.Insert, Entity: e}); err != nil {
			t.Fatal(err)
		}
	}
	r.Action.Destination = &engine.TableRef{Table: "Third"}
	count(r, 1800-120+200)
	w.equalTables("Source", "Third")
}

// A running scan tells how far it is, once it knows.
func TestProgress(t *testing.T) {
	t.Parallel()
	w := newWorld(t, emulator.Options{})
	w.fill("Source", plainRows(400, 1))
	r := engine.Request{Source: engine.TableRef{Table: "Source"}, Action: engine.Action{Type: engine.Count}, SegmentSize: 2}
	id := w.start(r)
	if s := w.status(id); s.Progress != nil {
		t.Errorf("progress %v before the first page", *s.Progress)
	}
	told := 0
	for w.deliver() > 0 {
		s := w.status(id)
		if s.State != ledger.Running {
			continue
		}
		if s.Progress == nil || *s.Progress <= 0 || *s.Progress >= 1 {
			t.Fatalf("progress %v of %+v", s.Progress, s)
		}
		told++
	}
	if told < 5 {
		t.Errorf("progress was told %d times", told)
	}
}
