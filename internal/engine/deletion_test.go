package engine_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"tablesweep/internal/emulator"
	"tablesweep/internal/engine"
	"tablesweep/internal/engine/ledger"
	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

func deleteRequest(strategy string, queries int) engine.Request {
	return engine.Request{
		Source: engine.TableRef{Table: "Source"}, Action: engine.Action{Type: engine.Delete},
		Strategy: strategy, SegmentSize: 10, SegmentsPerInvocation: queries,
	}
}

// checkDeleted checks that a delete of so many rows has counted each once, and has left nothing.
func (w *world) checkDeleted(id string, rows int) {
	w.Helper()
	s := w.status(id)
	if n := int64(rows); s.State != ledger.Succeeded || s.Rows.Scanned != n || s.Rows.Written != n || s.Rows.Failed+s.Rows.Gone != 0 || s.Steps.Pending != 0 {
		w.Errorf("%+v, want %d rows scanned and deleted", s, n)
	}
	if left := w.rows("Source"); len(left) > 0 {
		w.Errorf("%d rows are left", len(left))
	}
}

// TestDeletionGoesOn: a delivery that finds its step committed goes on with the step's deletion, and so does one that comes twice.
func TestDeletionGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withSource(t, 1, 5)
		id := w.start(deleteRequest("serial", 1))
		_, messages := w.take(engine.ScanPrefix, 1)
		body := w.bodyOf(messages[0])
		committed := false
		w.process.DieWhen(func(*http.Request) bool { // the first request behind the commit
			was := committed
			committed = len(w.ledgerRows(id, "d|")) == 2
			return was || committed
		})
		if _, err := w.engine.Run(t.Context(), body, 1); err == nil {
			t.Fatal("the process did not die")
		}
		w.restart()
		if s := w.status(id); s.Rows.Scanned != 5 || s.Rows.Written != 0 || s.Steps.Pending != 1 || len(w.rows("Source")) != 5 {
			t.Fatalf("%+v, want the reading committed, and the deletion pending", s)
		}
		ranges, err := w.observer.Ranges(t.Context(), id)
		if err != nil || len(ranges.Ranges) != 2 || ranges.Ranges[0].State != "pending" || ranges.Ranges[0].Rows != 5 {
			t.Errorf("ranges %+v, %v; want five rows pending", ranges.Ranges, err)
		}
		for delivery := 2; delivery < 4; delivery++ {
			_, _ = w.engine.Run(t.Context(), body, delivery)
			w.checkDeleted(id, 5)
		}
	})
}

// TestDeletionOfLongKeys: an invocation reads only as many pages as one message can name.
func TestDeletionOfLongKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{})
		var rows []storage.Entity
		for i := range 30 {
			long := strings.Repeat("漢", 510) + fmt.Sprintf("%02d", i) // the most units of a key
			rows = append(rows, storage.Entity{Key: key.Key{Partition: long, Row: long}})
		}
		w.fill("Source", rows)
		r := deleteRequest("serial", 24)
		r.SegmentSize = 1
		id := w.start(r)
		w.settle(id)
		w.checkDeleted(id, len(rows))
	})
}

// TestFailedDeletion: a row that can't be deleted keeps the deletion pending for four deliveries of its step's message. Then the deletion lists
// it and shows a failed range, and a retry does it again.
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
		w.settle(id)
		s := w.status(id)
		if n := int64(len(rows)); s.State != ledger.Failed || s.Rows.Scanned != n || s.Rows.Written != n-1 || s.Rows.Failed != 1 || len(w.rows("Source")) != 1 {
			t.Fatalf("%+v, and %d rows are left", s, len(w.rows("Source")))
		}
		ranges, err := w.observer.Ranges(t.Context(), id)
		if err != nil || len(ranges.Ranges) != 3 || ranges.Ranges[1].State != engine.RangeFailed {
			t.Errorf("ranges %+v, %v; want a failed one in the middle", ranges.Ranges, err)
		}
		w.restart()
		w.must(w.engine.RetryFailed(t.Context(), id))
		w.settle(id)
		w.checkDeleted(id, len(rows))
	})
}
