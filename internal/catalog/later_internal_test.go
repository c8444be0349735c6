package catalog

import (
	"context"
	"sync/atomic"
	"testing"
)

// TestDoLater checks that the number of background tasks is limited, and that a panic in a task does not end the process.
func TestDoLater(t *testing.T) {
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
		t.Errorf("%d tasks ran, want %d", n, maxBackground)
	}
}
