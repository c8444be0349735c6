package engine_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"tablesweep/internal/local/emulator"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/ledger"
)

// request returns a request for an action with the rows of table Source.
func request(a scans.Action) scans.Request {
	return scans.Request{Source: scans.TableRef{Table: "Source"}, Action: a, SegmentSize: 20}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t, emulator.Options{})
	rows := plainRows(30, 100)
	w.fill("Source", rows)
	s := w.run(request(scans.Action{Type: scans.Keys, Destination: &scans.TableRef{Table: "Keys"}}))
	if s.State != ledger.Succeeded || s.Rows.Scanned > 30*20 {
		t.Errorf("got status %+v, want few of the %d rows read", s, len(rows))
	}
	var got, want []string
	for _, e := range w.rows("Keys") {
		if e.Key.Partition != "Source" {
			t.Errorf("a row has partition key %q", e.Key.Partition)
		}
		got = append(got, e.Key.Row)
	}
	for _, e := range rows {
		want = append(want, e.Key.Partition)
	}
	if want = slices.Compact(want); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestErrorsNameTheAction makes the service refuse the requests of a scan's action. The scan's error must name the
// failed action.
func TestErrorsNameTheAction(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		action       scans.Action
		forbid, want string
	}{
		{scans.Action{Type: scans.Copy, Destination: &scans.TableRef{Table: "Target"}}, "/Target(", "write to the destination: write to table Target of "},
		{scans.Action{Type: scans.Keys, Destination: &scans.TableRef{Table: "Target"}}, "/Target(", "write to the destination: write to table Target of "},
		{scans.Action{Type: scans.Delete}, "/Source(PartitionKey", "delete rows: delete from table Source of "},
		{scans.Action{Type: scans.Enqueue, Queue: &scans.QueueRef{Name: "work"}}, "/work/messages", "enqueue messages: put into queue work of "},
	} {
		t.Run(tt.action.Type, func(t *testing.T) {
			t.Parallel()
			w := withSource(t, 3, 2)
			id := w.start(request(tt.action))
			w.refuse(http.StatusForbidden, "AuthorizationFailure", func(r *http.Request, body string) bool { return strings.Contains(r.URL.Path+body, tt.forbid) })
			w.drain()
			if s := w.status(id); s.State != ledger.Failed || !strings.HasPrefix(s.Error, tt.want) || !strings.Contains(s.Error, ": 403 ") || s.Steps.Pending != 1 {
				t.Errorf("got status %+v; want a pending step, and an error that begins with %q", s, tt.want)
			}
		})
	}
}
