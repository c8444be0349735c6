//go:build unix

package server

import (
	"context"
	"os"
	"time"
)

// parentCheckInterval is the time between two checks of the parent's id.
const parentCheckInterval = time.Second

// parentProcess is the process that started this one.
type parentProcess int

func parent() parentProcess { return parentProcess(os.Getppid()) }

// ended returns a channel that is closed when the parent has ended. The parent has ended if this process has another parent.
// The channel stays open if ctx ends earlier.
func (p parentProcess) ended(ctx context.Context) <-chan struct{} {
	gone := make(chan struct{})
	go func() { // ends when the parent or ctx ends
		for os.Getppid() == int(p) {
			select {
			case <-time.After(parentCheckInterval):
			case <-ctx.Done():
				return
			}
		}
		close(gone)
	}()
	return gone
}
