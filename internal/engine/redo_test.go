package engine_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/action"
	"tablesweep/internal/emulator"
	"tablesweep/internal/engine"
	"tablesweep/internal/engine/ledger"
	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

// failedCopy runs a copy of partitions with a row each, of which every third is in the way.
func (w *world) failedCopy(rows, segment int) (id string, taken []key.Key) {
	w.Helper()
	source := plainRows(rows, 1)
	w.fill("Source", source)
	taken = w.inTheWay(source, 3)
	r := copyRequest("Source", "Target")
	r.Action.Mode, r.SegmentSize = action.Fail, segment
	s := w.run(r)
	w.counted(s.ID, ledger.Failed, rows, rows-len(taken), len(taken))
	return s.ID, taken
}

// inTheWay fills Target with rows of which every n-th has a key of the source, and other content.
func (w *world) inTheWay(source []storage.Entity, every int) (taken []key.Key) {
	w.Helper()
	var others []storage.Entity
	for i := 0; i < len(source); i += every {
		taken, others = append(taken, source[i].Key), append(others, storage.Entity{Key: source[i].Key})
	}
	w.fill("Target", others)
	return taken
}

// remove deletes rows of a table, as an operator would.
func (w *world) remove(table string, keys ...key.Key) {
	w.Helper()
	for _, k := range keys {
		w.must(w.account.Table(table).Write(w.Context(), storage.Op{Kind: storage.Delete, Entity: storage.Entity{Key: k}}))
	}
}

// TestRedo: failed rows that are done again count once, whether they fail again or not. What is left is listed, and its first row stands in the
// scan's error.
func TestRedo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, emulator.Options{})
	id, taken := w.failedCopy(60, 5)
	check := func(state ledger.State, failed int) {
		t.Helper()
		w.counted(id, state, 60, 60-failed, failed)
		s := w.status(id)
		f, err := w.observer.Failed(t.Context(), id, 100, "")
		if err != nil || len(f.Rows) != failed || f.Kept != int64(failed) || failed > 0 && !strings.Contains(s.Error, f.Rows[0].PartitionKey) || failed == 0 && s.Error != "" {
			t.Errorf("error %q, rows %+v, %v, want %d rows", s.Error, f, err, failed)
		}
	}
	redo := func() {
		t.Helper()
		w.must(w.engine.RetryFailed(t.Context(), id), w.engine.RetryFailed(t.Context(), id))
		w.restart() // forgets that the scan had ended a moment ago
		w.drain()
	}
	redo()
	check(ledger.Failed, 20)
	w.remove("Target", taken[:7]...)
	redo()
	check(ledger.Failed, 13)
	w.remove("Source", taken[7])
	w.remove("Target", taken[7:]...)
	redo()
	s := w.status(id)
	if s.State != ledger.Succeeded || s.Rows.Failed != 0 || s.Rows.Written != 59 || s.Rows.Gone != 1 || s.Rows.Scanned != 60 {
		t.Errorf("%+v, want 59 rows written: one is gone from the source", s)
	}
	if err := w.engine.RetryFailed(t.Context(), id); err != nil {
		t.Errorf("the same request once more: %v", err)
	}
	ranges, err := w.observer.Ranges(t.Context(), id)
	if err != nil || len(ranges.Ranges) != 1 || ranges.Ranges[0].State != engine.RangeDone {
		t.Errorf("ranges %+v, %v", ranges, err)
	}
}

// TestRedoOfMany: more failed rows than a step lists are all done again. Those that are gone from the source are counted so, once.
func TestRedoOfMany(t *testing.T) {
	t.Parallel()
	w := newWorld(t, emulator.Options{})
	source := plainRows(1, 1200)
	w.fill("Source", source)
	others := w.inTheWay(source[:1100], 1)
	r := copyRequest("Source", "Target")
	r.Action.Mode, r.SegmentsPerInvocation, r.Strategy = action.Fail, 2, "serial"
	s := w.run(r)
	if s.Rows.Failed != 1100 {
		t.Fatalf("%+v", s)
	}
	const gone = 30
	for _, row := range source[20 : 20+gone] {
		w.remove("Source", row.Key)
	}
	at := 0
	for _, end := range []int{50, 600, len(others)} {
		w.remove("Target", others[at:end]...)
		at = end
		left := int64(len(others) - end)
		w.must(w.engine.RetryFailed(t.Context(), s.ID))
		w.restart()
		w.drain()
		s = w.status(s.ID)
		if s.Rows.Failed != left || s.Rows.Gone != gone || s.Rows.Written != 1200-gone-left || s.Rows.Scanned != 1200 {
			t.Fatalf("%+v, want %d failed rows, and %d gone", s, left, gone)
		}
	}
	w.equalTables("Source", "Target")
}

// TestRedoCrashPoints has the process die at requests of a retry of failed rows and of the steps that follow it. Each row counts once all the same.
func TestRedoCrashPoints(t *testing.T) {
	t.Parallel()
	for _, applied := range []bool{false, true} {
		for n, survived := 1, false; !survived; n += 2 * everyRequest {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, emulator.Options{})
				id, taken := w.failedCopy(12, 4)
				w.remove("Target", taken[1:]...)
				time.Sleep(time.Minute)
				w.process.DieWith(n, applied)
				process := w.process
				err := w.engine.RetryFailed(t.Context(), id)
				if err == nil && !process.Dead() {
					w.settle(id)
				}
				survived = !process.Dead()
				w.restart()
				if s := w.status(id); s.State == ledger.Failed && s.Rows.Failed == int64(len(taken)) {
					if err := w.engine.RetryFailed(t.Context(), id); err != nil {
						t.Error(err)
					}
				}
				w.settle(id)
				w.tidy()
				w.counted(id, ledger.Failed, 12, 11, 1)
				if left := w.ledgerRows(id, "p|"); len(left) > 0 {
					t.Errorf("still pending: %v", left)
				}
			})
			if t.Failed() {
				t.Fatalf("failed at request %d, applied %v", n, applied)
			}
		}
	}
}
