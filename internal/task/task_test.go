package task_test

import (
	"context"
	"errors"
	"testing"

	"tablesweep/internal/task"
)

func TestGroup(t *testing.T) {
	var g task.Group
	g.SetLimit(1)
	first, hold := errors.New("first"), make(chan struct{})
	g.Go(func() error { <-hold; return first })
	if g.TryGo(func() error { return nil }) {
		t.Error("more functions ran concurrently than the limit allows")
	}
	close(hold)
	g.Go(func() error { return errors.New("second") })
	if err := g.Wait(); !errors.Is(err, first) {
		t.Errorf("got %v, want the first error", err)
	}
	for range 300 { // functions that end because of the context may return before the function whose error ended it
		g, ctx := task.WithContext(t.Context())
		for range 100 {
			g.Go(func() error { <-ctx.Done(); return ctx.Err() })
		}
		g.Go(func() error { return first })
		if err := g.Wait(); !errors.Is(err, first) {
			t.Fatalf("got %v, want the first error", err)
		}
	}
	h, ctx := task.WithContext(t.Context())
	if err := h.Wait(); err != nil || !errors.Is(ctx.Err(), context.Canceled) {
		t.Errorf("got error %v and the context's error %v; want the context to end with the group", err, ctx.Err())
	}
}
