package engine_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"tablesweep/internal/local/emulator"
	"tablesweep/internal/problem"
	"tablesweep/internal/scans"
	"tablesweep/internal/storage"
)

// TestEditedNames: if somebody has put a name into a scan's row, this name gets into no URL, whether the scan is retried, is running, or
// is about to start.
func TestEditedNames(t *testing.T) {
	t.Parallel()
	const bad = "../x/Mmm()?$top=1&"
	export := func(container, prefix string) *scans.TableRef {
		return &scans.TableRef{Container: container, Prefix: prefix}
	}
	for _, tt := range []struct {
		field string
		edit  func(r *scans.Request)
	}{
		{"source.table", func(r *scans.Request) { r.Source.Table = bad }},
		{"source.container", func(r *scans.Request) { r.Source = *export("../"+bad, "p") }},
		{"source.prefix", func(r *scans.Request) { r.Source = *export("exports", "a/../b\\c") }},
		{"action.destination.table", func(r *scans.Request) { r.Action.Destination.Table = bad }},
		{"action.destination.container", func(r *scans.Request) { r.Action = scans.Action{Type: scans.Copy, Destination: export(bad, "p")} }},
		{"action.destination.prefix", func(r *scans.Request) {
			r.Action = scans.Action{Type: scans.Copy, Destination: export("exports", "a//b")}
		}},
		{"action.queue.name", func(r *scans.Request) {
			r.Action = scans.Action{Type: scans.Enqueue, Queue: &scans.QueueRef{Name: bad}}
		}},
		{"select", func(r *scans.Request) { r.Select = []string{"a&$top=1"} }},
		{"filter", func(r *scans.Request) { r.Filter = "a eq 1) or (true" }},
	} {
		t.Run(tt.field, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, emulator.Options{})
			w.fill("Source", plainRows(50, 1))
			id := w.start(copyRequest("Source", "Target"))
			var r scans.Request
			for _, row := range w.rows("tablesweep") {
				if row.Key.Partition == string(id) && len(row.Bytes("Request")) > 0 {
					w.must(json.Unmarshal(row.Bytes("Request"), &r))
				}
			}
			tt.edit(&r)
			edited, err := json.Marshal(r)
			w.must(err)
			w.replaceProperty(string(id), storage.BinaryProperty("Request", edited))
			next := w.process.Next
			w.process.Next = transport(func(r *http.Request) (*http.Response, error) {
				if strings.Contains(r.URL.Path, "Mmm") || strings.Contains(r.URL.Path, "exports") || strings.Contains(r.URL.RawQuery, "true") {
					t.Errorf("the app sent a request of %s?%s", r.URL.Path, r.URL.RawQuery)
				}
				return next.Do(r)
			})
			for _, p := range w.ledgerRows(id, "p|") {
				if _, err := w.engine.Run(t.Context(), p.Bytes("Message"), 1); problem.Of(err).Field != tt.field {
					t.Errorf("a step: got error %v, want a refusal of %s", err, tt.field)
				}
			}
			w.must(w.engine.Cancel(t.Context(), id))
			if err := w.engine.Retry(t.Context(), id); problem.Of(err).Field != tt.field || problem.Of(err).Kind != problem.Invalid {
				t.Errorf("a retry: got error %v, want a refusal of %s", err, tt.field)
			}
		})
	}
}
