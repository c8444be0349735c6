package engine_test

import (
	"slices"
	"testing"

	"tablesweep/internal/action"
	"tablesweep/internal/emulator"
	"tablesweep/internal/engine/ledger"
	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

// TestFailedRows: every row that could not be written is listed once, although messages are delivered several
// times, and with any page size. The ranges show where these rows are.
func TestFailedRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, emulator.Options{})
	rows := plainRows(60, 1)
	w.fill("Source", rows)
	taken := plainRows(60, 1)[10:50]
	for i := range taken {
		taken[i].Properties = taken[i].Properties[:1] // other contents, so that the mode refuses them
	}
	w.fill("Target", taken)
	w.must(w.emulator.SetFaults("seed=5; duplicate p=0.5; reset-after p=0.1 on=batch"))
	r := copyRequest("Source", "Target")
	r.Action.Mode, r.SegmentSize = action.Fail, 5
	s := w.run(r)
	w.counted(s.ID, ledger.Failed, len(rows), 20, len(taken))
	for _, top := range []int{1, 7, 40, 100} {
		var listed []key.Key
		cursor := ""
		for page := 0; ; page++ {
			f, err := w.observer.Failed(t.Context(), s.ID, top, cursor)
			w.must(err)
			if page == 0 && (f.Grouped != f.Total || len(f.Groups) != 1 || f.Groups[0].Count != f.Total || len(f.Groups[0].First) != 5 || f.Groups[0].Code != f.Rows[0].Reason) || page > 0 && f.Groups != nil {
				t.Errorf("page %d groups %d rows: %+v", page, f.Grouped, f.Groups)
			}
			if f.Total != int64(len(taken)) || f.Kept != f.Total || len(f.Rows) > top || page > len(taken) {
				t.Fatalf("page %d has %d rows, total %d, kept %d", page, len(f.Rows), f.Total, f.Kept)
			}
			for _, row := range f.Rows {
				if row.Reason == "" {
					t.Errorf("row %+v has no reason", row)
				}
				listed = append(listed, key.Key{Partition: row.PartitionKey, Row: row.RowKey})
			}
			if cursor = f.Cursor; cursor == "" {
				break
			}
		}
		slices.SortFunc(listed, key.Key.Compare)
		if !slices.EqualFunc(listed, taken, func(k key.Key, row storage.Entity) bool { return k == row.Key }) {
			t.Errorf("by pages of %d, %d rows are listed, or others than the %d: %v", top, len(listed), len(taken), listed)
		}
	}
	ranges, err := w.observer.Ranges(t.Context(), s.ID)
	w.must(err)
	var failed, read int64
	for _, r := range ranges.Ranges {
		read += r.Rows
		if r.State == "failed" {
			failed += r.Rows
		}
	}
	if failed < int64(len(taken)) || failed == read || read != int64(len(rows)) {
		t.Errorf("ranges %+v: %d rows of %d in failed ones", ranges.Ranges, failed, read)
	}
}

// TestDetailOfAnEnd: once a status shows a scan's end, no older timeline or ranges are shown.
func TestDetailOfAnEnd(t *testing.T) {
	t.Parallel()
	w := withSource(t, 30, 1)
	r := copyRequest("Source", "Target")
	r.SegmentSize, r.Strategy = 5, "serial"
	id := w.start(r)
	w.deliver()
	if ranges, err := w.engine.Ranges(t.Context(), id); err != nil || len(ranges.Ranges) != 2 {
		t.Fatalf("ranges %+v, %v, want some done and some pending", ranges, err)
	}
	w.drain()
	if s, err := w.engine.Status(t.Context(), id); err != nil || s.State != ledger.Succeeded {
		t.Fatalf("status %+v, %v", s, err)
	}
	w.checkTold(id, 30)
	n := w.requests(func() error { _, err := w.engine.Timeline(t.Context(), id); return err })
	if n != 0 {
		t.Errorf("a timeline that was just read costs %d requests", n)
	}
}
