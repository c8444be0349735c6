package engine_test

import (
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/emulator"
	"tablesweep/internal/engine"
)

// TestEstimateOfAScan estimates scans and runs them: they read just the rows that were counted, and
// make about as many requests.
func TestEstimateOfAScan(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		ask  engine.Request
		rows int64
	}{
		{"copy", engine.Request{Action: engine.Action{Type: engine.Copy, Destination: &engine.TableRef{Table: "Target"}}}, 400},
		{"filter", engine.Request{Action: engine.Action{Type: engine.Delete}, Filter: "RowKey lt '000004'"}, 160},
		{"keys", engine.Request{Action: engine.Action{Type: engine.Keys, Destination: &engine.TableRef{Table: "Target"}}}, 400},
		{"enqueue", engine.Request{Action: engine.Action{Type: engine.Enqueue, Queue: &engine.QueueRef{Name: "rows"}}}, 400},
		{"count", engine.Request{Action: engine.Action{Type: engine.Count}}, 400},
		{"prefix", engine.Request{Action: engine.Action{Type: engine.Count}, Strategy: "prefix"}, 400},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := withSource(t, 40, 10)
			tt.ask.Source.Table, tt.ask.SegmentSize = "Source", 10
			r, err := w.engine.Estimate(t.Context(), tt.ask)
			w.must(err)
			s := w.run(tt.ask)
			if !r.Counted || *r.Rows[0] != tt.rows || *r.Rows[1] != tt.rows || s.Rows.Scanned != tt.rows {
				t.Errorf("counted %v: %d rows; the scan read %d, want %d", r.Counted, *r.Rows[0], s.Rows.Scanned, tt.rows)
			}
			// With a filter, how many queries find nothing depends on how many are under way.
			if x := float64(s.Cost.Requests) / float64(r.Requests); x < 0.3 || x > 2 {
				t.Errorf("%d requests, want about the scan's %d", r.Requests, s.Cost.Requests)
			}
		})
	}
}

// TestEstimateInTime ends a count that would take minutes, and tells that there may be more rows.
func TestEstimateInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{Latency: time.Second})
		w.fill("Source", plainRows(10, 100))
		began := time.Now()
		ask := engine.Request{Source: engine.TableRef{Table: "Source"}, Action: engine.Action{Type: engine.Count}, Strategy: "serial", SegmentSize: 10}
		r, err := w.engine.Estimate(t.Context(), ask)
		if took := time.Since(began); err != nil || r.Counted || *r.Rows[0] != 10*r.Queries || r.Rows[1] != nil || r.Queries < 18 || took > 25*time.Second {
			t.Errorf("%+v, %v after %v; want the rows of about 20 queries", r, err, took)
		}
	})
}
