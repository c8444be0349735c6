package engine_test

import (
	"testing"
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
