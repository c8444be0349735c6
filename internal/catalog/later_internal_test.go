package catalog

import (
	"context"
	"sync/atomic"
	"testing"
)

// TestLater: what is completed in the background is bounded, and a panic there is no end
// of the process.
func TestLater(t *testing.T) {
	c := New(Options{})
	var running atomic.Int64
	hold := make(chan struct{})
	for range 3 * maxBackground {
		c.Writer.committer.doLater(t.Context(), func(context.Context) error {
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
