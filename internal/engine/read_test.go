package engine_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/emulator"
	"tablesweep/internal/engine"
	"tablesweep/internal/engine/ledger"
	"tablesweep/internal/proof/testsize"
)

// An invocation of a count makes several queries unless the request says otherwise, since the
// ledger's partition limits commits a second. An invocation that writes makes one.
func TestQueriesOfAnInvocation(t *testing.T) {
	t.Parallel()
	w := withSource(t, 100, 1)
	for _, tt := range []struct {
		request engine.Request
		want    int64
	}{
		{engine.Request{Action: engine.Action{Type: engine.Count}}, 4},
		{engine.Request{Action: engine.Action{Type: engine.Count}, SegmentsPerInvocation: 1}, 1},
		{engine.Request{Action: engine.Action{Type: engine.Count}, SegmentsPerInvocation: 10}, 10},
		{copyRequest("Source", "Target"), 1},
	} {
		r := tt.request
		r.Source, r.Strategy, r.SegmentSize = engine.TableRef{Table: "Source"}, "serial", 5
		id := w.start(r)
		w.drain()
		s := w.status(id)
		if s.Queries < 20 || s.Rows.Scanned != 100 || (s.Queries+tt.want-1)/tt.want != s.Steps.Done {
			t.Errorf("%s, %d queries an invocation asked for: %d queries in %d steps, want %d a step",
				r.Action.Type, r.SegmentsPerInvocation, s.Queries, s.Steps.Done, tt.want)
		}
		// Each step also reads its pending row and commits, and each but the last sends a message.
		if want := s.Queries + 3*s.Steps.Done - 1; r.Action.Type == engine.Count && s.Transactions != want {
			t.Errorf("%d requests are counted, want %d", s.Transactions, want)
		}
	}
}

// An invocation of several queries reads behind each of its cuts, all at once. With strategies that don't
// guess, it reads one page after the other.
func TestInvocationLooksAtItsCuts(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	for _, tt := range []struct {
		strategy string
		segments int
		took     time.Duration // of the first invocation's queries, a second each
		parts    int           // of the range that are done by then
	}{
		{"adaptive", 4, 2 * time.Second, 2},
		{"adaptive", 5, 2 * time.Second, 2}, // cuts that lead to no rows are one part
		{"serial", 4, 4 * time.Second, 1},
		{"prefix", 4, 4 * time.Second, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, emulator.Options{})
			w.fill("Source", plainRows(300, 7)) // pages cut partitions
			r := copyRequest("Source", "Target")
			r.Strategy, r.SegmentSize, r.SegmentsPerInvocation = tt.strategy, 20, tt.segments
			id := w.start(r)
			w.must(w.emulator.SetFaults("seed=1; latency=1s..1s on=query table=Source"))
			start := time.Now()
			w.deliver()
			if took := time.Since(start); took != tt.took {
				t.Errorf("%s, %d segments: the first invocation takes %v, want %v", tt.strategy, tt.segments, took, tt.took)
			}
			s := w.status(id)
			if s.Steps.Done != 1 || s.Queries != int64(tt.segments) {
				t.Errorf("%s, %d segments: %d steps with %d queries", tt.strategy, tt.segments, s.Steps.Done, s.Queries)
			}
			ranges, err := w.observer.Ranges(t.Context(), id)
			w.must(err)
			parts, rows := 0, int64(0)
			for _, x := range ranges.Ranges {
				rows += x.Rows
				if x.State == engine.RangeDone {
					parts++
				} else if x.Rows > 0 {
					t.Errorf("%s, %d segments: pending range %+v", tt.strategy, tt.segments, x)
				}
			}
			if parts != tt.parts || rows != s.Rows.Scanned {
				t.Errorf("%s, %d segments: %d parts with %d rows are done, want %d with %d: %+v", tt.strategy, tt.segments, parts, rows, tt.parts, s.Rows.Scanned, ranges.Ranges)
			}
			w.must(w.emulator.SetFaults(""))
			w.drain()
			w.equalTables("Source", "Target")
			if s := w.status(id); s.Rows.Scanned != 2100 || s.Rows.Written != 2100 {
				t.Errorf("%s, %d segments: %+v", tt.strategy, tt.segments, s.Rows)
			}
		})
	}
}

// If one of several queries that are made at once fails, the step fails: what it asked for does not count as empty.
func TestOneOfSeveralQueriesIsRefused(t *testing.T) {
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
		t.Errorf("%s with %d rows, want a failed scan without any", s.State, s.Rows.Scanned)
	}
}
