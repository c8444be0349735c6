package catalog

import (
	"context"
	"sync/atomic"
	"testing"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/proof"
	"tablesweep/internal/record"
)

// TestLater: what is completed in the background is bounded, and a panic there is no end
// of the process.
func TestLater(t *testing.T) {
	c := New(Options{})
	var running atomic.Int64
	hold := make(chan struct{})
	for range 3 * maxBackground {
		c.later(t.Context(), func(context.Context) error {
			running.Add(1)
			<-hold
			panic("lost")
		})
	}
	close(hold)
	c.Close()
	if n := running.Load(); n != maxBackground {
		t.Errorf("%d ran, want %d", n, maxBackground)
	}
}

// TestInsertAllPanics: a panic in one of many inserts is that record's error.
func TestInsertAllPanics(t *testing.T) {
	schema, err := index.Parse("eid", "name")
	proof.Must(t, err)
	one, err := record.Parse([]byte(`{"eid":"1","name":"n"}`))
	proof.Must(t, err)
	c := New(Options{Schema: schema}) // without tables: whatever is asked of them panics
	for _, result := range c.InsertAll(t.Context(), []record.Record{one, one}, nil) {
		if result.Err == nil {
			t.Errorf("%+v; want an error", result)
		}
	}
}
