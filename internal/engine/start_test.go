package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/engine/ledger"
	"tablesweep/internal/logtail/claim"
	"tablesweep/internal/problem"
)

// TestStartOnce lets the process die at each request of a start that has an Idempotency-Key, and sends it again: there is
// one scan, and one id. Another request with the key is refused, until the scan is removed.
func TestStartOnce(t *testing.T) {
	r, sent := copyRequest("Source", "Target"), claim.Sent{Key: "key"}
	crashPoints(t, 1, func(t *testing.T, n int, applied bool) bool {
		w := withSource(t, 5, 1)
		w.process.DieWith(n, applied)
		first, started := w.engine.StartOnce(t.Context(), r, sent)
		w.restart()
		again, err := w.engine.StartOnce(t.Context(), r, sent)
		w.must(err)
		if started == nil && first != again {
			t.Errorf("the ids are %s and %s", first, again)
		}
		w.maintain(3) // the message may be lost
		w.drain()
		w.counted(again, ledger.Succeeded, 5, 5, 0)
		time.Sleep(30 * 24 * time.Hour)
		if last, err := w.engine.StartOnce(t.Context(), r, sent); err != nil || last != again {
			t.Errorf("a month later: %s, %v, want %s", last, err, again)
		}
		other := r
		other.Name = "other"
		if _, err := w.engine.StartOnce(t.Context(), other, sent); problem.Of(err).Kind != problem.KeyReused {
			t.Errorf("another request with the key: %v", err)
		}
		if list, err := w.list(10); err != nil || len(list) != 1 || list[0].ID != again {
			t.Errorf("%v: %+v, want scan %s alone", err, list, again)
		}
		time.Sleep(70 * 24 * time.Hour)
		w.maintain(3)
		if left := w.ledgerRows("scans", ""); len(left) > 0 {
			t.Errorf("100 days later: %v", left)
		}
		return started == nil
	})
}

// TestStartOnceAfterRemoval: a scan that was removed does not begin again under its id, though its key is still there: some of its rows may be, too.
func TestStartOnceAfterRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := withSource(t, 5, 1)
		r, sent := copyRequest("Source", "Target"), claim.Sent{Key: "key"}
		first, err := w.engine.StartOnce(t.Context(), r, sent)
		w.must(err)
		w.drain()
		time.Sleep(90*24*time.Hour - 30*time.Minute)
		w.maintain(1) // which looks at the keys
		time.Sleep(40 * time.Minute)
		w.maintain(1)
		if left := w.ledgerRows("scans", "i|"); len(left) != 1 {
			t.Fatalf("%d keys are left, want 1", len(left))
		}
		again, err := w.engine.StartOnce(t.Context(), r, sent)
		w.must(err)
		if again == first {
			t.Errorf("the scan has the id of one that was removed, %s", first)
		}
		w.drain()
		w.counted(again, ledger.Succeeded, 5, 5, 0)
	})
}

// TestRefusedStartOnce: a request that was refused leaves its key to another one.
func TestRefusedStartOnce(t *testing.T) {
	w := withSource(t, 1, 1)
	_, err := w.engine.StartOnce(t.Context(), copyRequest("Missing", "Target"), claim.Sent{Key: "key"})
	if problem.Of(err).Kind != problem.NotFound {
		t.Errorf("a copy of a missing table: %v", err)
	}
	_, err = w.engine.StartOnce(t.Context(), copyRequest("Source", "Target"), claim.Sent{Key: "key"})
	w.must(err)
}
