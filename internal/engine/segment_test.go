package engine_test

import (
	"testing"

	"tablesweep/internal/emulator"
	"tablesweep/internal/engine"
)

// An invocation that only counts makes several queries, unless the request says otherwise: the
// ledger's partition takes so many commits a second. One that writes makes one.
func TestQueriesOfAnInvocation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, emulator.Options{})
	w.fill("Source", plainRows(400, 1))
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
		if s := w.status(id); s.Queries < 80 || s.Rows.Scanned != 400 || (s.Queries+tt.want-1)/tt.want != s.Steps.Done {
			t.Errorf("%s, %d queries an invocation asked for: %d queries in %d steps, want %d a step",
				r.Action.Type, r.SegmentsPerInvocation, s.Queries, s.Steps.Done, tt.want)
		}
	}
}
