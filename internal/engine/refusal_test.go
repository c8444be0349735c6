package engine_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/engine"
	"tablesweep/internal/engine/ledger"
)

// TestErrorsNameTheAction has the service refuse what a scan's action does. The scan's error must say what failed.
func TestErrorsNameTheAction(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		action      engine.Action
		forbid, say string
	}{
		{engine.Action{Type: engine.Copy, Destination: &engine.TableRef{Table: "Target"}}, "/Target(", "write to the destination: write to table Target of "},
		{engine.Action{Type: engine.Keys, Destination: &engine.TableRef{Table: "Target"}}, "/Target(", "write to the destination: write to table Target of "},
		{engine.Action{Type: engine.Delete}, "/Source(PartitionKey", "delete rows: delete from table Source of "},
		{engine.Action{Type: engine.Enqueue, Queue: &engine.QueueRef{Name: "work"}}, "/work/messages", "enqueue messages: put into queue work of "},
	} {
		t.Run(tt.action.Type, func(t *testing.T) {
			t.Parallel()
			w := withSource(t, 3, 2)
			id := w.start(request(tt.action))
			w.refuse(http.StatusForbidden, "AuthorizationFailure", func(r *http.Request, body string) bool { return strings.Contains(r.URL.Path+body, tt.forbid) })
			w.drain()
			if s := w.status(id); s.State != ledger.Failed || !strings.HasPrefix(s.Error, tt.say) || !strings.Contains(s.Error, ": 403 ") || s.Steps.Pending != 1 {
				t.Errorf("status %+v; want the step kept, and an error that begins with %q", s, tt.say)
			}
		})
	}
}

// TestServiceFailsOverARow: a row that five deliveries can't write, since the service fails each time, is a failed row.
// All others are written.
func TestServiceFailsOverARow(t *testing.T) {
	for _, tt := range []struct {
		action engine.Action
		table  string
		rows   int // of the table at the end
	}{
		{engine.Action{Type: engine.Copy, Destination: &engine.TableRef{Table: "Target"}}, "Target", 11},
		{engine.Action{Type: engine.Delete}, "Source", 1},
	} {
		t.Run(tt.action.Type, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := withSource(t, 3, 4)
				bad := w.rows("Source")[5].Key
				w.refuse(http.StatusInternalServerError, "InternalError", func(r *http.Request, body string) bool {
					at := r.URL.Path + body
					return r.Method != http.MethodGet && strings.Contains(at, "/"+tt.table) && strings.Contains(at, bad.Partition) && strings.Contains(at, bad.Row)
				})
				began := time.Now()
				id := w.start(request(tt.action))
				w.drain()
				s := w.status(id)
				if s.State != ledger.Failed || len(w.rows(tt.table)) != tt.rows || s.Rows.Failed != 1 || s.Steps.Pending != 0 || !strings.Contains(s.Error, bad.Partition) || !strings.Contains(s.Error, "500, 10 times in a row: InternalError") {
					t.Errorf("status %+v; want the other 11 rows done, and %v failed with the answer", s, bad)
				}
				if took := time.Since(began); took > 15*time.Minute {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}
