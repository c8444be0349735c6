package engine_test

import (
	"fmt"
	"slices"
	"testing"
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
