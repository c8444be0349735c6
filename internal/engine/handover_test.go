package engine_test

import (
	"testing"

	"tablesweep/internal/emulator"
	"tablesweep/internal/engine"
	"tablesweep/internal/engine/ledger"
	"tablesweep/internal/scan/strategy"
	"tablesweep/internal/storage"
)

// Pages of many small partitions are handed over to CopyRows; each row is counted once, whoever writes it.
func TestHandOverToCopyRows(t *testing.T) {
	t.Parallel()
	run := func(strategy string, segments, segmentSize int, rows []storage.Entity) {
		w := newWorld(t, emulator.Options{})
		w.fill("Source", rows)
		r := copyRequest("Source", "Target")
		r.Strategy, r.SegmentSize, r.SegmentsPerInvocation = strategy, segmentSize, segments
		id := w.start(r)
		w.drain()
		w.counted(id, ledger.Succeeded, len(rows), len(rows), 0)
		w.equalTables("Source", "Target")
		if w.delivered[engine.CopyRows] == 0 {
			t.Errorf("%s, %d segments: nothing was handed over", strategy, segments)
		}
	}
	for _, strategy := range strategy.Names {
		run(strategy, 1, 501, plainRows(300, 2)) // odd: pages cut partitions
	}
	// An invocation reads pages that are far apart: what lies between them is not handed over.
	run("adaptive", 4, 251, plainRows(1500, 1))
}
