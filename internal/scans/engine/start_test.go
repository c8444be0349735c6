package engine_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/problem"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/stream/claim"
)

// TestStartOnce lets the process die at each storage request of a start with an Idempotency-Key, and sends the start again. There is only one scan,
// with one id. Another request with the same key is refused until the scan is removed.
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
			t.Errorf("the two starts return ids %s and %s, want the same", first, again)
		}
		w.maintain(3) // the message may have been lost
		w.drain()
		w.checkCounts(again, ledger.Succeeded, 5, 5, 0)
		time.Sleep(30 * 24 * time.Hour)
		if last, err := w.engine.StartOnce(t.Context(), r, sent); err != nil || last != again {
			t.Errorf("a month later, the start returns %s, %v, want %s", last, err, again)
		}
		other := r
		other.Name = "other"
		if _, err := w.engine.StartOnce(t.Context(), other, sent); problem.Of(err).Kind != problem.KeyReused {
			t.Errorf("another request with the key: got error %v", err)
		}
		if list, err := w.list(10); err != nil || len(list) != 1 || list[0].ID != again {
			t.Errorf("the list has %v: %+v, want only scan %s", err, list, again)
		}
		time.Sleep(70 * 24 * time.Hour)
		w.maintain(3)
		if left := w.ledgerRows("scans", ""); len(left) > 0 {
			t.Errorf("100 days later, these rows are left: %v", left)
		}
		return started == nil
	})
}

// TestStartOnceAfterRemoval: a removed scan does not begin again under its id, even if its claim still exists, because some of the scan's rows may
// still exist.
func TestStartOnceAfterRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := withSource(t, 5, 1)
		r, sent := copyRequest("Source", "Target"), claim.Sent{Key: "key"}
		first, err := w.engine.StartOnce(t.Context(), r, sent)
		w.must(err)
		w.drain()
		time.Sleep(90*24*time.Hour - 30*time.Minute)
		w.maintain(1) // this checks the claims
		time.Sleep(40 * time.Minute)
		w.maintain(1)
		if left := w.ledgerRows("scans", "i|"); len(left) != 1 {
			t.Fatalf("%d claims are left, want 1", len(left))
		}
		again, err := w.engine.StartOnce(t.Context(), r, sent)
		w.must(err)
		if again == first {
			t.Errorf("the new scan has the id of the removed one, %s", first)
		}
		w.drain()
		w.checkCounts(again, ledger.Succeeded, 5, 5, 0)
	})
}

// TestStartOnceByTwoInstances: while one instance is at some storage request of a start with a key, a second instance gets the same start, or another start
// with the key. The second completes its start, or dies at one of its storage requests. Then the first continues, or finds that its source is gone.
// There is only one scan, with one id.
func TestStartOnceByTwoInstances(t *testing.T) {
	r, sent := copyRequest("Source", "Target"), claim.Sent{Key: "key"}
	other := r
	other.Name = "other"
	crashPoints(t, testsize.Slow(8, 5, 1), func(t *testing.T, n int, applied bool) bool {
		survived := true
		for name, second := range map[string]scans.Request{"same": r, "first refused": r, "other": other} {
			for at, met := 2, true; met; at += testsize.Slow(2, 2, 1) {
				w := withSource(t, 1, 1)
				process := &emulatortest.Process{Next: w.emulator.Transport()}
				var ids [2]ledger.ScanID
				var errs [2]error
				requests := 0 // storage requests of the first instance
				w.process.Next = transport(func(q *http.Request) (*http.Response, error) {
					if requests++; requests == at {
						process.DieWith(n, applied)
						ids[1], errs[1] = w.newEngine(emulatortest.Open(t, w.emulator, process)).StartOnce(t.Context(), second, sent)
						survived = survived && !process.Dead()
					}
					if name == "first refused" && requests >= at && strings.Contains(q.URL.Path, "Source") {
						return emulatortest.Refusal(q, http.StatusNotFound, "TableNotFound"), nil
					}
					return w.emulator.Transport().Do(q)
				})
				ids[0], errs[0] = w.engine.StartOnce(t.Context(), r, sent)
				met = requests >= at
				w.restart()
				id, err := w.engine.StartOnce(t.Context(), r, sent)
				if problem.Of(err).Kind == problem.KeyReused { // the second instance was faster
					id, err = w.engine.StartOnce(t.Context(), second, sent)
				}
				w.must(err)
				w.maintain(3)
				list, err := w.list(10)
				w.must(err)
				for i := range ids {
					if errs[i] == nil && ids[i] != id && (i == 0 || ids[1] != "") || len(list) != 1 || list[0].ID != id {
						t.Errorf("%s, at request %d: the starts return ids %q and errors %v, then id %s; the list has %d scans", name, at, ids, errs, id, len(list))
					}
				}
				if name == "other" && errs[0] == nil && ids[1] != "" {
					t.Errorf("both instances started a scan: %q", ids)
				}
			}
		}
		return survived
	})
}
