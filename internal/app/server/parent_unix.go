//go:build unix

package server

import (
	"context"
	"os"
	"time"
)

const parentCheckInterval = time.Second

// parentProcess is the process that started this one.
type parentProcess int

func parent() parentProcess { return parentProcess(os.Getppid()) }

// ended returns a channel. When the parent ends, this process gets another parent, and the channel is closed. If ctx
// ends earlier, the channel stays open.
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
