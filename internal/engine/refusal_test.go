package engine_test

import (
	"net/http"
	"strings"
	"testing"

	"tablesweep/internal/emulator"
	"tablesweep/internal/engine"
	"tablesweep/internal/engine/ledger"
)

// TestErrorsNameTheAction has the service refuse what a scan's action does. The scan's
// error must say what failed.
func TestErrorsNameTheAction(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		action      engine.Action
		forbid, say string
	}{
		{engine.Action{Type: engine.Copy, Destination: &engine.TableRef{Table: "Target"}}, "/Target(", "write to the destination: write to table Target: 403"},
		{engine.Action{Type: engine.Keys, Destination: &engine.TableRef{Table: "Target"}}, "/Target(", "write to the destination: write to table Target: 403"},
		{engine.Action{Type: engine.Delete}, "/Source(PartitionKey", "delete rows: delete from table Source: 403"},
		{engine.Action{Type: engine.Enqueue, Queue: &engine.QueueRef{Name: "work"}}, "/work/messages", "enqueue messages: put into queue work: 403"},
	} {
		t.Run(tt.action.Type, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, emulator.Options{})
			w.fill("Source", plainRows(3, 2))
			id := w.start(request(tt.action))
			w.refuse(func(r *http.Request, body string) bool { return strings.Contains(r.URL.Path+body, tt.forbid) })
			w.drain()
			if s := w.status(id); s.State != ledger.Failed || !strings.HasPrefix(s.Error, tt.say) || s.Steps.Pending != 1 {
				t.Errorf("status %+v; want the step kept, and an error that begins with %q", s, tt.say)
			}
		})
	}
}
