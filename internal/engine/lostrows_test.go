package engine_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/engine/ledger"
	"tablesweep/internal/place"
	"tablesweep/internal/problem"
)

// TestLostRows: somebody deletes rows of a scan under way from the state table. The scan then never succeeds, no count is below zero, and a
// retry is refused: nobody knows any more what is to be done.
func TestLostRows(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, prefix, suffix string
		most                 int  // of the rows with both
		export               bool // whose files must not be deleted
		reason               string
	}{
		{"a pending step", "p|", "", 1, false, "lacks 1 pending steps"},
		{"all pending steps", "p|", "", 1000, false, " pending steps, which nobody has done"},
		{"the scan's own done row", "d|", "|", 1, false, "more are done than were begun"},
		{"a file of an export", "w|", "", 1, true, "lacks data files that steps have written"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := withSource(t, 20, 10)
				r := copyRequest("Source", "Target")
				if tt.export {
					r = exportRequest("Source", "p")
				}
				r.Strategy, r.SegmentSize, r.SegmentsPerInvocation = "prefix", 10, 1
				id := w.start(r)
				for range 3 {
					w.deliver()
				}
				removed := 0
				for _, row := range w.ledgerRows(id, tt.prefix) {
					if strings.HasSuffix(row.Key.Row, tt.suffix) && removed < tt.most {
						w.remove("tablesweep", row.Key)
						removed++
					}
				}
				if removed == 0 {
					t.Fatalf("there is no row %s…%s", tt.prefix, tt.suffix)
				}
				blobs := map[string]string{}
				if tt.export {
					blobs = w.blobs("p")
				}
				w.drain()
				w.maintain(3)
				w.drain()
				s := w.status(id)
				if s.State != ledger.Failed || !strings.Contains(s.Error, tt.reason) || !strings.Contains(s.Error, "tart a new scan") {
					t.Errorf("%+v; want it failed with %q", s, tt.reason)
				}
				if s.Steps.Pending < 0 || s.Steps.Done < 0 || s.Rows.Scanned < 0 || s.Rows.Written < 0 || s.Rows.Failed < 0 {
					t.Errorf("%+v has a count below zero", s)
				}
				after := map[string]string{}
				if tt.export {
					after = w.blobs("p")
				}
				for name := range blobs {
					if _, ok := after[name]; !ok && strings.HasPrefix(name, place.DataPrefix) {
						t.Errorf("the blob %s was deleted", name)
					}
				}
				for _, retry := range []func() error{
					func() error { return w.engine.Retry(t.Context(), id) },
					func() error { return w.engine.RetryFailed(t.Context(), id) },
				} {
					if err := retry(); problem.Status(err) != 409 {
						t.Errorf("a retry: %v, want a conflict", err)
					}
				}
				time.Sleep(time.Hour)
				if list, err := w.list(10); err != nil || len(list) != 1 || list[0].Steps.Pending < 0 || list[0].State != ledger.Failed {
					t.Errorf("listed: %+v, %v", list, err)
				}
			})
		})
	}
}
