package engine_test

import (
	"testing"

	"tablesweep/internal/emulator"
	"tablesweep/internal/engine"
	"tablesweep/internal/ledger"
)

// Pages of many small partitions are handed over to CopyRows; each row is counted
// once, whoever writes it.
func TestHandOverToCopyRows(t *testing.T) {
	t.Parallel()
	for _, strategy := range engine.Strategies {
		w := newWorld(t, emulator.Options{})
		rows := plainRows(1500, 2)
		w.fill("Source", rows)
		r := copyRequest("Source", "Target")
		r.Strategy, r.SegmentSize = strategy, 701 // odd: pages cut partitions
		id := w.start(r)
		w.drain()
		if s := w.status(id); s.State != ledger.Succeeded || s.Rows.Scanned != int64(len(rows)) || s.Rows.Written != int64(len(rows)) {
			t.Errorf("%s: %+v", strategy, s)
		}
		w.equalTables("Source", "Target")
		if w.delivered[engine.CopyRows] == 0 {
			t.Errorf("%s: nothing was handed over", strategy)
		}
	}
}
