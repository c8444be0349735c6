package engine_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/emulator"
	"tablesweep/internal/engine/ledger"
	"tablesweep/internal/key"
	"tablesweep/internal/scan/adaptive"
	"tablesweep/internal/storage"
)

// TestRetryWhileRemoved: a scan's time is over, and Maintain removes its row just when a retry has listed the next
// attempt. That attempt never begins. Maintain takes it off the list of open scans, without an error, as it does with a first
// attempt that no other list has. The list of all keeps the scan until its row there is as old.
func TestRetryWhileRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{})
		id := w.canceled()
		w.maintain(20)
		l := ledger.New(w.account.Table("tablesweep"))
		read, err := l.Scan(t.Context(), id)
		w.must(err)
		time.Sleep(91 * 24 * time.Hour)
		w.maintain(1)
		if err := l.Restart(t.Context(), read, time.Now(), nil, adaptive.Outlook{}); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("restart of a scan that was removed: %v, want %v", err, ledger.ErrNotFound)
		}
		alone := storage.Entity{Key: key.Key{Partition: "scans", Row: "o|" + id + "|1"}}
		w.must(w.account.Table("tablesweep").Write(t.Context(), storage.Op{Kind: storage.Insert, Entity: alone}))
		w.maintain(20)
		if left := w.ledgerRows(id, "o|"); len(left) > 0 {
			t.Errorf("still listed as open: %v", left)
		}
		time.Sleep(91 * 24 * time.Hour)
		w.maintain(2)
		if left := w.ledgerRows(id, ""); len(left) > 0 {
			t.Errorf("%d rows are left: %v", len(left), left)
		}
	})
}

// TestRunningScansHideNone: a scan is removed when its time is over, although many that were started later still run.
func TestRunningScansHideNone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{})
		id := w.canceled()
		w.maintain(20)
		for range 12 {
			w.start(inSteps)
		}
		time.Sleep(91 * 24 * time.Hour)
		w.maintain(2)
		if left := w.ledgerRows(id, ""); len(left) > 0 {
			t.Errorf("%d rows are left: %v", len(left), left)
		}
	})
}
