package engine_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/problem"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/scans/status"
	"tablesweep/internal/split/scan"
	"tablesweep/internal/storage"
)

// ledgerRows returns the ledger's rows of a scan whose keys have a prefix, in the scan's partition and in the lists.
func (w *world) ledgerRows(id ledger.ScanID, prefix string) []storage.Entity {
	return slices.DeleteFunc(w.rows("tablesweep"), func(e storage.Entity) bool {
		return e.Key.Partition != string(id) && !strings.Contains(e.Key.Row, string(id)) || !strings.HasPrefix(e.Key.Row, prefix)
	})
}

// countInSteps counts the rows of Source, with five rows a step.
var countInSteps = scans.Request{Source: scans.TableRef{Table: "Source"}, Action: scans.Action{Type: scans.Count}, SegmentSize: 5, SegmentsPerInvocation: 1}

// maintain runs Maintain once a minute.
func (w *world) maintain(times int) {
	w.Helper()
	for range times {
		if err := w.engine.Maintain(w.Context()); err != nil && !w.process.Dead() {
			w.Errorf("Maintain: %v", err)
		}
		if w.process.Dead() {
			w.restart()
		}
		time.Sleep(time.Minute)
	}
}

// requests returns how many storage requests a call makes.
func (w *world) requests(call func() error) int64 {
	w.Helper()
	w.emulator.ResetCounts()
	if err := call(); err != nil {
		w.Error(err)
	}
	c := w.emulator.Counts()
	return c.TableTransactions() + c.QueueTransactions()
}

// TestRetention: a day after a scan's end, its steps are one row, and its timeline and ranges are unchanged. When its retention
// is over, all its rows are removed, at whichever request a process dies during the removal. Running scans stay. Canceled scans
// can be retried until their retention is over.
func TestRetention(t *testing.T) {
	testsize.WithoutRace(t)
	crashPoints(t, 5*everyRequest, retention)
}

func retention(t *testing.T, n int, applied bool) bool {
	w := newWorld(t, emulator.Options{})
	canceled := w.canceledCopy()
	time.Sleep(time.Second)
	ended := w.run(countInSteps).ID
	before := w.status(canceled)
	w.process.DieWith(n, applied)
	w.maintain(20)
	list, err := w.list(10)
	if err != nil || len(list) != 2 {
		t.Fatalf("the list has %+v, %v, want two scans", list, err)
	}
	if s := list[1]; s.Rows != before.Rows || s.Steps != before.Steps || s.State != ledger.Canceled || s.Steps.Pending == 0 {
		t.Errorf("the list has %+v, want the figures of the status: %+v", s, before)
	}
	time.Sleep(24 * time.Hour)
	w.process.DieWith(n, applied)
	w.maintain(5)
	if done := w.ledgerRows(ended, "d|"); len(done) != 1 {
		t.Errorf("%d done rows a day later, want 1", len(done))
	}
	if n == 1 {
		w.checkRows(ended, 50)
	}
	w.restart()
	running := w.start(countInSteps)
	time.Sleep(91 * 24 * time.Hour)
	w.process.DieWith(n, applied)
	w.maintain(2)
	w.restart()
	w.maintain(3)
	for _, id := range []ledger.ScanID{ended, canceled} {
		if left := w.ledgerRows(id, ""); len(left) > 0 {
			t.Errorf("%d rows are left of scan %s: %v", len(left), id, left)
		}
		if err := w.engine.Retry(t.Context(), id); problem.Of(err).Kind != problem.NotFound {
			t.Errorf("a retry of a removed scan: got error %v", err)
		}
	}
	if list, err := w.list(10); err != nil || len(list) != 1 || list[0].ID != running || list[0].State != ledger.Running {
		t.Errorf("the list has %+v, %v, want only the running scan", list, err)
	}
	return n > 60
}

// TestLateTidying: the list gets a canceled scan's totals even if Maintain does not run for days.
func TestLateTidying(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{})
		id := w.canceledCopy()
		want := w.status(id)
		time.Sleep(72 * time.Hour)
		w.maintain(3)
		time.Sleep(24 * time.Hour)
		w.maintain(5)
		n := w.requests(func() error {
			list, err := w.list(5)
			if err == nil && (len(list) != 1 || list[0].Rows != want.Rows || list[0].Steps != want.Steps) {
				t.Errorf("the list has %+v, want %+v", list, want)
			}
			return err
		})
		if n != 2 {
			t.Errorf("the list makes %d requests, want 2", n)
		}
		if left := w.ledgerRows(id, "t|"); len(left) > 0 {
			t.Errorf("the scan is still in the list of scans to tidy up: %+v", left)
		}
	})
}

// TestOldScansAreFolded: a scan that ended long ago is folded, even if a thousand scans have ended since.
func TestOldScansAreFolded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withSource(t, 30, 1)
		id := w.run(countInSteps).ID
		w.maintain(20)
		time.Sleep(36 * time.Hour)
		for range storage.PageRows / 100 {
			var ops []storage.Op
			for range 100 {
				row := key.Key{Partition: "scans", Row: "t|" + string(ledger.NewScanID(time.Now()))}
				ops = append(ops, storage.Op{Kind: storage.Insert, Row: storage.Row{Key: row}})
			}
			w.must(w.account.Table("tablesweep").Write(t.Context(), ops...))
		}
		reads := 0
		w.process.Next = transport(func(r *http.Request) (*http.Response, error) {
			if strings.Contains(r.URL.Query().Get("$filter"), "'t|") {
				reads++
			}
			return w.emulator.Transport().Do(r)
		})
		w.maintain(3)
		if done := w.ledgerRows(id, "d|"); len(done) != 1 || reads != 3 {
			t.Errorf("%d done rows a day later, and the list was read %d times in 3 minutes; want 1 and 3", len(done), reads)
		}
	})
}

// checkRows checks that the timeline and the ranges of an ended scan have all its rows.
func (w *world) checkRows(id ledger.ScanID, rows int64) {
	w.Helper()
	timeline, err := w.engine.Timeline(w.Context(), id)
	w.must(err)
	ranges, err := w.engine.Ranges(w.Context(), id)
	w.must(err)
	var worked, read int64
	for _, p := range timeline.Points {
		worked += p.Rows
	}
	for _, r := range ranges.Ranges {
		if r.State != status.RangeDone {
			w.Errorf("got range %+v, want it done", r)
		}
		read += r.Rows
	}
	if worked != rows || read != rows {
		w.Errorf("the timeline has %d rows and the ranges have %d, want %d", worked, read, rows)
	}
}

// TestRequestsOfTheConsole: the console's calls make few requests, even if the process has just started and there are many scans,
// one of them running. Each scan that was canceled minutes ago costs one more request, because its steps may still be running.
func TestRequestsOfTheConsole(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withSource(t, 12, 1)
		const ended, canceled = 25, 24
		for range ended {
			w.run(countInSteps)
		}
		for range canceled {
			id := w.start(countInSteps)
			w.deliver()
			w.must(w.engine.Cancel(t.Context(), id))
			w.drain() // no messages remain for a later delivery
			time.Sleep(time.Second)
		}
		for _, most := range []int64{7 + canceled, 7} {
			id := w.start(countInSteps)
			w.deliver()
			w.deliver()
			w.restart()
			n := w.requests(func() error {
				list, err := w.list(50)
				if err != nil || len(list) != 50 {
					return fmt.Errorf("a list of %d scans: %w", len(list), err)
				}
				if s := list[1]; s.State != ledger.Canceled || s.Rows.Scanned == 0 || s.Steps.Done == 0 || s.Steps.Pending == 0 {
					t.Errorf("the list shows a canceled scan as %+v", s)
				}
				if _, err := w.engine.Status(t.Context(), id); err != nil {
					return err
				}
				if _, err := w.engine.Timeline(t.Context(), id); err != nil {
					return err
				}
				_, err = w.engine.Ranges(t.Context(), id)
				return err
			})
			if n > most {
				t.Errorf("the calls of a refresh make %d requests, want at most %d", n, most)
			}
			w.must(w.engine.Cancel(t.Context(), id))
			time.Sleep(16 * time.Minute)
			w.maintain(4) // each run settles ten scans
		}
	})
}

// TestRetryDuringRemoval: a scan's retention is over, and Maintain removes its row when a retry has just listed the next
// attempt. That attempt never begins. Maintain removes it from the list of open scans without an error, in the same way as a
// first attempt that no other list has. The scan stays in the list of all until its row there is old enough.
func TestRetryDuringRemoval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{})
		id, l := w.canceledCopy(), ledger.New(w.account.Table("tablesweep"))
		w.maintain(20)
		read, err := l.Scan(t.Context(), id)
		w.must(err)
		time.Sleep(91 * 24 * time.Hour)
		w.maintain(1)
		if err := l.Restart(t.Context(), read, time.Now(), nil, scan.Outlook{}); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("a restart of a removed scan: got error %v, want %v", err, ledger.ErrNotFound)
		}
		alone := storage.Entity{Key: key.Key{Partition: "scans", Row: "o|" + string(id) + "|1"}}
		w.must(w.account.Table("tablesweep").Write(t.Context(), storage.Op{Kind: storage.Insert, Row: alone.Row()}))
		w.maintain(20)
		if left := w.ledgerRows(id, "o|"); len(left) > 0 {
			t.Errorf("the list of open scans still has %v", left)
		}
		time.Sleep(91 * 24 * time.Hour)
		w.maintain(2)
		if left := w.ledgerRows(id, ""); len(left) > 0 {
			t.Errorf("%d rows are left: %v", len(left), left)
		}
	})
}

// TestRunningScansDoNotBlockRemoval: a scan is removed when its retention is over, even if many later scans are still running.
func TestRunningScansDoNotBlockRemoval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{})
		id := w.canceledCopy()
		w.maintain(20)
		for range 12 {
			w.start(countInSteps)
		}
		time.Sleep(91 * 24 * time.Hour)
		w.maintain(2)
		if left := w.ledgerRows(id, ""); len(left) > 0 {
			t.Errorf("%d rows are left: %v", len(left), left)
		}
	})
}
