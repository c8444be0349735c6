package engine_test

import (
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/scans/status"
)

// An invocation of a count makes several queries unless the request sets another number, because the ledger's
// partition limits the commits a second. An invocation that writes makes one.
func TestQueriesPerInvocation(t *testing.T) {
	t.Parallel()
	w := withSource(t, 100, 1)
	for _, tt := range []struct {
		request scans.Request
		want    int64
	}{
		{scans.Request{Action: scans.Action{Type: scans.Count}}, 4},
		{scans.Request{Action: scans.Action{Type: scans.Count}, SegmentsPerInvocation: 1}, 1},
		{scans.Request{Action: scans.Action{Type: scans.Count}, SegmentsPerInvocation: 10}, 10},
		{copyRequest("Source", "Target"), 1},
	} {
		r := tt.request
		r.Source, r.Strategy, r.SegmentSize = scans.TableRef{Table: "Source"}, "serial", 5
		id := w.start(r)
		w.drain()
		s := w.status(id)
		if s.Queries < 20 || s.Rows.Scanned != 100 || (s.Queries+tt.want-1)/tt.want != s.Steps.Done {
			t.Errorf("%s, %d queries requested for each invocation: %d queries in %d steps, want %d for each step",
				r.Action.Type, r.SegmentsPerInvocation, s.Queries, s.Steps.Done, tt.want)
		}
		// Each step also reads its pending row and commits. Each step except the last sends a message.
		if want := s.Queries + 3*s.Steps.Done - 1; r.Action.Type == scans.Count && s.Transactions != want {
			t.Errorf("the status counts %d requests, want %d", s.Transactions, want)
		}
	}
}

// With the adaptive strategy, an invocation with several queries reads all its children concurrently. With other
// strategies, it reads one page after another.
func TestInvocationReadsItsChildren(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	for _, tt := range []struct {
		strategy string
		segments int
		took     time.Duration // the time of the first invocation's queries, each of which takes a second
		parts    int           // the parts of the range that are done after that
	}{
		{"adaptive", 4, 2 * time.Second, 2},
		{"adaptive", 5, 2 * time.Second, 2}, // divisions without rows between them count as one part
		{"serial", 4, 4 * time.Second, 1},
		{"prefix", 4, 4 * time.Second, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, emulator.Options{})
			rows := plainRows(testsize.Of(120, 300), 7) // partitions span pages
			w.fill("Source", rows)
			r := copyRequest("Source", "Target")
			r.Strategy, r.SegmentSize, r.SegmentsPerInvocation = tt.strategy, 20, tt.segments
			id := w.start(r)
			w.must(w.emulator.SetFaults("seed=1; latency=1s..1s on=query table=Source"))
			start := time.Now()
			w.deliver()
			if took := time.Since(start); took != tt.took {
				t.Errorf("%s, %d segments: the queries of the first invocation take %v, want %v", tt.strategy, tt.segments, took, tt.took)
			}
			s := w.status(id)
			if s.Steps.Done != 1 || s.Queries != int64(tt.segments) {
				t.Errorf("%s, %d segments: %d steps made %d queries", tt.strategy, tt.segments, s.Steps.Done, s.Queries)
			}
			ranges, err := w.observer.Ranges(t.Context(), id)
			w.must(err)
			parts, done := 0, int64(0)
			for _, x := range ranges.Ranges {
				done += x.Rows
				if x.State == status.RangeDone {
					parts++
				} else if x.Rows > 0 {
					t.Errorf("%s, %d segments: unexpected pending range %+v", tt.strategy, tt.segments, x)
				}
			}
			if parts != tt.parts || done != s.Rows.Scanned {
				t.Errorf("%s, %d segments: %d parts with %d rows are done, want %d with %d: %+v", tt.strategy, tt.segments, parts, done, tt.parts, s.Rows.Scanned, ranges.Ranges)
			}
			w.must(w.emulator.SetFaults(""))
			w.drain()
			w.equalTables("Source", "Target")
			if s := w.status(id); s.Rows.Scanned != int64(len(rows)) || s.Rows.Written != int64(len(rows)) {
				t.Errorf("%s, %d segments: got rows %+v", tt.strategy, tt.segments, s.Rows)
			}
		})
	}
}

// If one of several concurrent queries fails, the step fails. The query's range does not count as empty.
func TestFailedQueryFailsTheStep(t *testing.T) {
	t.Parallel()
	w := withSource(t, 300, 1)
	var queries atomic.Int64
	w.refuse(http.StatusForbidden, "AuthorizationFailure", func(r *http.Request, _ string) bool {
		return r.Method == http.MethodGet && strings.Contains(r.URL.Path, "Source") && queries.Add(1) == 3
	})
	r := copyRequest("Source", "Target")
	r.Strategy, r.SegmentSize, r.SegmentsPerInvocation = "adaptive", 20, 4
	id := w.start(r)
	w.drain()
	if s := w.status(id); s.State != ledger.Failed || s.Rows.Scanned != 0 {
		t.Errorf("the scan is %s with %d rows, want failed without rows", s.State, s.Rows.Scanned)
	}
}

// TestEstimateMatchesTheScan estimates scans and then runs them. Each scan reads exactly the estimated rows, and makes about
// the estimated number of requests.
func TestEstimateMatchesTheScan(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	for _, tt := range []struct {
		name string
		scan scans.Request
		rows int64
	}{
		{"copy", scans.Request{Action: scans.Action{Type: scans.Copy, Destination: &scans.TableRef{Table: "Target"}}}, 400},
		{"filter", scans.Request{Action: scans.Action{Type: scans.Delete}, Filter: "RowKey lt '000004'"}, 160},
		{"keys", scans.Request{Action: scans.Action{Type: scans.Keys, Destination: &scans.TableRef{Table: "Target"}}}, 400},
		{"enqueue", scans.Request{Action: scans.Action{Type: scans.Enqueue, Queue: &scans.QueueRef{Name: "rows"}}}, 400},
		{"count", scans.Request{Action: scans.Action{Type: scans.Count}}, 400},
		{"prefix", scans.Request{Action: scans.Action{Type: scans.Count}, Strategy: "prefix"}, 400},
	}[:testsize.Of(3, 6)] {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := withSource(t, 40, 10)
			tt.scan.Source.Table, tt.scan.SegmentSize = "Source", 10
			r, err := w.engine.Estimate(t.Context(), tt.scan)
			w.must(err)
			s := w.run(tt.scan)
			if !r.Counted || *r.Rows[0] != tt.rows || *r.Rows[1] != tt.rows || s.Rows.Scanned != tt.rows {
				t.Errorf("the estimate (complete: %v) has %d rows, and the scan read %d, want %d", r.Counted, *r.Rows[0], s.Rows.Scanned, tt.rows)
			}
			// With a filter, the number of queries without rows depends on the number of concurrent queries.
			if x := float64(s.Cost.Requests) / float64(r.Requests); x < 0.3 || x > 2.5 {
				t.Errorf("the estimate has %d requests, want about the scan's %d", r.Requests, s.Cost.Requests)
			}
		})
	}
}

// TestEstimateWithLimits: an estimate shows the shortest time that the limits allow.
func TestEstimateWithLimits(t *testing.T) {
	w := withSource(t, 40, 10)
	for _, l := range []scans.Limits{{RowsPerSecond: 20}, {RequestsPerSecond: 10}, {RowsPerSecond: 20, RequestsPerSecond: 1}} {
		r, err := w.engine.Estimate(t.Context(), scans.Request{Source: scans.TableRef{Table: "Source"}, Action: scans.Action{Type: scans.Count}, Limits: &l})
		w.must(err)
		want := 20.
		if l.RequestsPerSecond > 0 {
			want = math.Round(float64(r.Requests) / float64(l.RequestsPerSecond))
		}
		if r.LeastSeconds != want || want < 20 {
			t.Errorf("limits %+v: the estimate is at least %v s, want %v for %d requests", l, r.LeastSeconds, want, r.Requests)
		}
	}
}

// TestEstimateEndsInTime: an estimate ends a count that would take minutes, and reports that there may be more rows.
func TestEstimateEndsInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{Latency: time.Second})
		w.fill("Source", plainRows(10, 100))
		began := time.Now()
		count := scans.Request{Source: scans.TableRef{Table: "Source"}, Action: scans.Action{Type: scans.Count}, Strategy: "serial", SegmentSize: 10}
		r, err := w.engine.Estimate(t.Context(), count)
		if took := time.Since(began); err != nil || r.Counted || *r.Rows[0] != 10*r.Queries || r.Rows[1] != nil || r.Queries < 18 || took > 25*time.Second {
			t.Errorf("got estimate %+v, %v after %v; want the rows of about 20 queries", r, err, took)
		}
	})
}
