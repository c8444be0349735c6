package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/local/emulator"
	"tablesweep/internal/problem"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/scans/status"
	"tablesweep/internal/storage"
)

// canceledCopy starts a copy of 50 rows, and cancels it after half of the rows.
func (w *world) canceledCopy() ledger.ScanID {
	w.Helper()
	w.fill("Source", plainRows(50, 1))
	r := copyRequest("Source", "Target")
	r.SegmentSize, r.Strategy = 5, "prefix"
	id := w.start(r)
	w.deliver()
	w.must(w.engine.Cancel(w.Context(), id))
	w.drain()
	return id
}

// TestRetryAfterCancel: a retried scan runs to its end, even if a proxying host sends each request several times.
func TestRetryAfterCancel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{})
		id := w.canceledCopy()
		before := w.status(id).Seconds
		time.Sleep(time.Hour)
		w.must(w.engine.Cancel(t.Context(), id), w.engine.Retry(t.Context(), id), w.engine.Retry(t.Context(), id))
		if s := w.status(id); s.State != ledger.Running || s.FinishedAt != nil || s.Phase != status.Working {
			t.Errorf("got status %+v, want running without an end", s)
		}
		time.Sleep(7 * time.Second)
		running := w.status(id).Seconds
		w.drain()
		w.checkTidy()
		if s := w.status(id); running < before+6 || running > before+8 || s.Seconds < running || s.Seconds > running+600 {
			t.Errorf("the scan ran for %v s, then %v s and at last %v s; the hour in between must not count", before, running, s.Seconds)
		}
		list, err := w.list(1)
		if err != nil || list[0].Seconds != w.status(id).Seconds {
			t.Errorf("the list has %+v, %v, want the time of the status", list, err)
		}
		if err := w.engine.Retry(t.Context(), id); err != nil {
			t.Errorf("a retry after the scan's end: got error %v", err)
		}
		w.checkEnd(id, 50)
		if err := w.engine.Cancel(t.Context(), id); err == nil {
			t.Error("a succeeded scan was canceled")
		}
	})
}

// TestRetryAfterFailure: a step that fails in every delivery fails the scan, and the scan's error has the reason. A retry does the step.
func TestRetryAfterFailure(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := withSource(t, 30, 1)
		r := copyRequest("Source", "Target")
		r.SegmentSize = 5
		id := w.start(r)
		for _, faults := range []string{"busy p=1 on=query table=Source", ""} {
			w.must(w.emulator.SetFaults(faults))
			w.timeToEnd(id)
			if faults == "" {
				break
			}
			if s := w.status(id); s.State != ledger.Failed || !strings.Contains(s.Error, "never finished; the last failure: query table Source") || s.Steps.Pending == 0 {
				t.Fatalf("got status %+v, want failed with a pending step", s)
			}
			if n, err := w.queue(scans.Queues[scans.ScanPrefix]).Length(t.Context()); err != nil || n != 0 {
				t.Errorf("%d messages are left, %v", n, err)
			}
			if ranges, err := w.engine.Ranges(t.Context(), id); err != nil || !slices.ContainsFunc(ranges.Ranges, func(r status.KeyRange) bool { return r.State == status.RangeFailed }) {
				t.Errorf("got ranges %+v, %v, want a failed one", ranges, err)
			}
			w.must(w.engine.Retry(t.Context(), id))
			if s := w.status(id); s.State != ledger.Running || s.Error != "" {
				t.Errorf("got status %+v, want running without an error", s)
			}
			for _, p := range w.ledgerRows(id, "p|") {
				if p.Get("Reason") != "" || p.Int("Begun")+p.Int("FirstEnded")+p.Int("Sends") != 0 {
					t.Errorf("the step still has the records of its failures: %+v", p)
				}
			}
		}
		w.checkTidy()
		w.checkEnd(id, 30)
	})
}

// TestAbandonedRetryIsRemoved lets the process die after it has listed an attempt and before the attempt begins.
func TestAbandonedRetryIsRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{})
		id := w.canceledCopy()
		w.process.DieWith(3, true) // after the process has read the scan's row and steps
		if err := w.engine.Retry(t.Context(), id); err == nil {
			t.Fatal("the process did not die")
		}
		w.restart()
		for _, want := range []int{1, 0} { // at first the attempt is young; then it is too old for a running retry
			w.must(w.engine.Maintain(t.Context()))
			if open := w.ledgerRows(id, "o|"); len(open) != want {
				t.Errorf("%d attempts are listed as open, want %d", len(open), want)
			}
			time.Sleep(11 * time.Minute)
		}
		if s := w.status(id); s.State != ledger.Canceled {
			t.Errorf("got status %+v, want canceled", s)
		}
	})
}

// TestRefusedRetries: a retry that can change nothing is refused. A retry of failed rows is refused if there are none. Neither changes the scan.
func TestRefusedRetries(t *testing.T) {
	t.Parallel()
	w := withSource(t, 2, 3)
	w.fill("Taken", []storage.Entity{{Key: plainRows(1, 1)[0].Key}})
	taken := copyRequest("Source", "Taken")
	taken.Action.Mode = "fail"
	failed := w.run(taken)
	if failed.State != ledger.Failed || failed.Rows.Failed != 1 {
		t.Fatalf("got status %+v, want one row failed", failed)
	}
	succeeded := w.run(copyRequest("Source", "Target"))
	canceled := w.start(countInSteps)
	w.must(w.engine.Cancel(t.Context(), canceled))
	for _, tt := range []struct {
		name   string
		id     ledger.ScanID
		retry  func(context.Context, ledger.ScanID) error
		kind   problem.Kind
		detail string
	}{
		{"unknown", "0-none", w.engine.Retry, problem.NotFound, "there is no scan"},
		{"unknown, failed rows", "0-none", w.engine.RetryFailed, problem.NotFound, "there is no scan"},
		{"succeeded", succeeded.ID, w.engine.Retry, problem.Conflict, "state is succeeded"},
		{"nothing but failed rows", failed.ID, w.engine.Retry, problem.Conflict, "the scan has 1 failed row; "},
		{"no failed rows", canceled, w.engine.RetryFailed, problem.Conflict, "no failed rows"},
	} {
		err := tt.retry(t.Context(), tt.id)
		var p *problem.Error
		if !errors.As(err, &p) || p.Kind != tt.kind || !strings.Contains(p.Detail, tt.detail) {
			t.Errorf("%s: got error %v, want %q", tt.name, err, tt.detail)
		}
	}
	if s := w.status(failed.ID); s.State != ledger.Failed || s.Error != failed.Error {
		t.Errorf("after the refused retry, the status is %+v", s)
	}
	if s := w.status(canceled); s.State != ledger.Canceled {
		t.Errorf("after the refused retry, the status is %+v", s)
	}
}
