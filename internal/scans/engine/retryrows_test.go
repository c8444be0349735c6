package engine_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"tablesweep/internal/action"
	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/scans/status"
	"tablesweep/internal/storage"
)

// failedCopy runs a copy of partitions with one row each. For every third row, the destination has a conflicting row.
func (w *world) failedCopy(rows, segment int) (id ledger.ScanID, taken []key.Key) {
	w.Helper()
	source := plainRows(rows, 1)
	w.fill("Source", source)
	taken = w.fillConflicts(source, 3)
	r := copyRequest("Source", "Target")
	r.Action.Mode, r.SegmentSize = action.Fail, segment
	s := w.run(r)
	w.checkCounts(s.ID, ledger.Failed, rows, rows-len(taken), len(taken))
	return s.ID, taken
}

// fillConflicts fills Target so that every n-th row of the source conflicts with a row of the same key and other content.
func (w *world) fillConflicts(source []storage.Entity, every int) (taken []key.Key) {
	w.Helper()
	var others []storage.Entity
	for i := 0; i < len(source); i += every {
		taken, others = append(taken, source[i].Key), append(others, storage.Entity{Key: source[i].Key})
	}
	w.fill("Target", others)
	return taken
}

// remove deletes rows of a table, as an operator does.
func (w *world) remove(table string, keys ...key.Key) {
	w.Helper()
	for _, k := range keys {
		w.must(w.account.Table(table).Write(w.Context(), storage.Op{Kind: storage.Delete, Row: storage.Row{Key: k}}))
	}
}

// TestRetryOfFailedRows: failed rows that are retried count once, whether or not they fail again. The remaining failed rows are listed, and the scan's error
// has the first of them.
func TestRetryOfFailedRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, emulator.Options{})
	id, taken := w.failedCopy(60, 5)
	check := func(state ledger.State, failed int) {
		t.Helper()
		w.checkCounts(id, state, 60, 60-failed, failed)
		s := w.status(id)
		f, err := w.observer.Failed(t.Context(), id, 100, "")
		if err != nil || len(f.Rows) != failed || f.Kept != int64(failed) || failed > 0 && !strings.Contains(s.Error, f.Rows[0].PartitionKey) || failed == 0 && s.Error != "" {
			t.Errorf("the scan has error %q and failed rows %+v, %v; want %d rows", s.Error, f, err, failed)
		}
	}
	redo := func() {
		t.Helper()
		w.must(w.engine.RetryFailed(t.Context(), id), w.engine.RetryFailed(t.Context(), id))
		w.restart() // the new process does not know that the scan has just ended
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
		t.Errorf("got status %+v, want 59 written rows, because one is gone from the source", s)
	}
	if err := w.engine.RetryFailed(t.Context(), id); err != nil {
		t.Errorf("the same request again: got error %v", err)
	}
	timeline, err := w.observer.Timeline(t.Context(), id)
	worked := int64(0)
	for _, p := range timeline.Points {
		worked += p.Rows
	}
	if err != nil || worked != 80 {
		t.Errorf("the timeline has %d rows, %v; want 60 and the 20 retried ones", worked, err)
	}
	ranges, err := w.observer.Ranges(t.Context(), id)
	if err != nil || len(ranges.Ranges) != 1 || ranges.Ranges[0].State != status.RangeDone {
		t.Errorf("got ranges %+v, %v, want a single done one", ranges, err)
	}
}

// TestRetryOfManyFailedRows: all failed rows are retried, even if they are more than a step lists. Rows that are no longer in the source count once, as
// gone.
func TestRetryOfManyFailedRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, emulator.Options{})
	source := plainRows(1, 1200)
	w.fill("Source", source)
	others := w.fillConflicts(source[:1100], 1)
	r := copyRequest("Source", "Target")
	r.Action.Mode, r.SegmentsPerInvocation, r.Strategy = action.Fail, 2, "serial"
	s := w.run(r)
	if s.Rows.Failed != 1100 {
		t.Fatalf("got status %+v", s)
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
			t.Fatalf("got status %+v, want %d failed rows and %d gone ones", s, left, gone)
		}
	}
	w.equalTables("Source", "Target")
}

func deleteRequest(strategy string, queries int) scans.Request {
	return scans.Request{
		Source: scans.TableRef{Table: "Source"}, Action: scans.Action{Type: scans.Delete},
		Strategy: strategy, SegmentSize: 10, SegmentsPerInvocation: queries,
	}
}

// checkDeleted checks that a delete has counted the given number of rows, and has left none in the table.
func (w *world) checkDeleted(id ledger.ScanID, rows int) {
	w.Helper()
	s := w.status(id)
	if n := int64(rows); s.State != ledger.Succeeded || s.Rows.Scanned != n || s.Rows.Written != n || s.Rows.Failed+s.Rows.Gone != 0 || s.Steps.Pending != 0 {
		w.Errorf("got status %+v, want %d rows scanned and deleted", s, n)
	}
	if left := w.rows("Source"); len(left) > 0 {
		w.Errorf("%d rows are left", len(left))
	}
}

// TestDeletionContinues: a delivery that finds its step committed continues the step's deletion, even if there are two such deliveries.
func TestDeletionContinues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withSource(t, 1, 5)
		id := w.start(deleteRequest("serial", 1))
		_, messages := w.takeMessages(scans.ScanPrefix, 1)
		body := w.bodyOf(messages[0])
		committed := false
		w.process.DieWhen(func(*http.Request) bool { // the first request after the commit
			was := committed
			committed = len(w.ledgerRows(id, "d|")) == 2
			return was || committed
		})
		if _, err := w.engine.Run(t.Context(), body, 1); err == nil {
			t.Fatal("the process did not die")
		}
		w.restart()
		if s := w.status(id); s.Rows.Scanned != 5 || s.Rows.Written != 0 || s.Steps.Pending != 1 || len(w.rows("Source")) != 5 {
			t.Fatalf("got status %+v, want the read step done and the deletion pending", s)
		}
		ranges, err := w.observer.Ranges(t.Context(), id)
		if err != nil || len(ranges.Ranges) != 2 || ranges.Ranges[0].State != "pending" || ranges.Ranges[0].Rows != 5 {
			t.Errorf("got ranges %+v, %v; want five rows pending", ranges.Ranges, err)
		}
		for delivery := 2; delivery < 4; delivery++ {
			_, _ = w.engine.Run(t.Context(), body, delivery)
			w.checkDeleted(id, 5)
		}
	})
}

// TestDeletionOfLongKeys: an invocation reads only as many pages as fit into one message.
func TestDeletionOfLongKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{})
		var rows []storage.Entity
		for i := range 30 {
			long := strings.Repeat("漢", 510) + fmt.Sprintf("%02d", i) // a key of maximum length, in UTF-16 code units
			rows = append(rows, storage.Entity{Key: key.Key{Partition: long, Row: long}})
		}
		w.fill("Source", rows)
		r := deleteRequest("serial", 24)
		r.SegmentSize = 1
		id := w.start(r)
		w.timeToEnd(id)
		w.checkDeleted(id, len(rows))
	})
}

// TestFailedDeletion: if a row cannot be deleted, the deletion stays pending for four deliveries of its step's message. Then the scan lists the
// row and shows a failed range, and a retry deletes the row.
func TestFailedDeletion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{})
		rows := plainRows(3, 40)
		w.fill("Source", rows)
		bad := rows[70].Key
		w.refuse(http.StatusInternalServerError, "InternalError", func(r *http.Request, body string) bool {
			return r.Method != http.MethodGet && strings.Contains(r.URL.Path+body, "PartitionKey='"+bad.Partition+"',RowKey='"+bad.Row+"'")
		})
		id := w.start(deleteRequest("serial", 2))
		w.timeToEnd(id)
		s := w.status(id)
		if n := int64(len(rows)); s.State != ledger.Failed || s.Rows.Scanned != n || s.Rows.Written != n-1 || s.Rows.Failed != 1 || len(w.rows("Source")) != 1 {
			t.Fatalf("got status %+v, and %d rows are left", s, len(w.rows("Source")))
		}
		ranges, err := w.observer.Ranges(t.Context(), id)
		if err != nil || len(ranges.Ranges) != 3 || ranges.Ranges[1].State != status.RangeFailed {
			t.Errorf("got ranges %+v, %v; want a failed one in the middle", ranges.Ranges, err)
		}
		w.restart()
		w.must(w.engine.RetryFailed(t.Context(), id))
		w.timeToEnd(id)
		w.checkDeleted(id, len(rows))
	})
}
