package engine_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/emulator"
	"tablesweep/internal/engine"
	"tablesweep/internal/engine/ledger"
	"tablesweep/internal/key"
	"tablesweep/internal/scan/strategy"
	"tablesweep/internal/storage"
)

// request asks for an action with the rows of table Source.
func request(a engine.Action) engine.Request {
	return engine.Request{Source: engine.TableRef{Table: "Source"}, Action: a, SegmentSize: 20}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t, emulator.Options{})
	rows := plainRows(30, 100)
	w.fill("Source", rows)
	s := w.run(request(engine.Action{Type: engine.Keys, Destination: &engine.TableRef{Table: "Keys"}}))
	if s.State != ledger.Succeeded || s.Rows.Scanned > 30*20 {
		t.Errorf("status %+v, want few of the %d rows read", s, len(rows))
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

func TestDelete(t *testing.T) {
	t.Parallel()
	for _, strategy := range strategy.Names {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, emulator.Options{})
			rows := plainRows(600, 2) // so many partitions that pages are handed over
			w.fill("Source", rows)
			r := request(engine.Action{Type: engine.Delete})
			r.Strategy, r.SegmentSize, r.Range = strategy, 500, key.Bounds{After: rows[99].Key.Partition}
			s := w.run(r)
			var kept []storage.Entity
			for _, e := range rows {
				if !r.Range.Range().Contains(e.Key) {
					kept = append(kept, e)
				}
			}
			if deleted := int64(len(rows) - len(kept)); s.State != ledger.Succeeded || s.Rows.Written != deleted || len(kept) == 0 {
				t.Errorf("status %+v, want %d rows deleted", s, deleted)
			}
			if got := w.rows("Source"); !slices.EqualFunc(got, kept, storage.Equal) {
				t.Errorf("%d rows are left, want %d", len(got), len(kept))
			}
		})
	}
}

func TestEnqueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, emulator.Options{})
	rows := plainRows(10, 7)
	w.fill("Source", rows)
	s := w.run(request(engine.Action{Type: engine.Enqueue, Queue: &engine.QueueRef{Name: "work"}, Message: "{{.PartitionKey}} {{.RowKey}}"}))
	if s.State != ledger.Succeeded || s.Rows.Written != int64(len(rows)) {
		t.Errorf("status %+v, want %d messages", s, len(rows))
	}
	var got, want []string
	for q := w.queue("work"); ; {
		messages, err := q.Get(t.Context(), storage.MaxGetMessages, time.Hour)
		w.must(err)
		if len(messages) == 0 {
			break
		}
		for _, m := range messages {
			got = append(got, string(w.bodyOf(m)))
		}
	}
	for _, e := range rows {
		want = append(want, fmt.Sprintf("%s %s", e.Key.Partition, e.Key.Row))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

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
