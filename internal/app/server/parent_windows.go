package server

import (
	"context"
	"os"
	"syscall"
)

// parentProcess is a handle of the parent, which is the process that started this one. The parent's id is not enough.
// After the parent's end, Windows still reports this id as the parent's, but may have given it to another process.
type parentProcess struct{ handle syscall.Handle }

func parent() parentProcess {
	h, err := syscall.OpenProcess(syscall.SYNCHRONIZE, false, uint32(os.Getppid()))
	if err != nil {
		return parentProcess{syscall.InvalidHandle} // the parent has ended, or this process may not watch it
	}
	return parentProcess{h}
}

// ended returns a channel that is closed when the parent has ended. The channel stays open if the parent cannot be
// watched.
func (p parentProcess) ended(context.Context) <-chan struct{} {
	gone := make(chan struct{})
	if p.handle == syscall.InvalidHandle {
		return gone
	}
	go func() { // ends when the parent or this process ends
		if event, err := syscall.WaitForSingleObject(p.handle, syscall.INFINITE); err == nil && event == syscall.WAIT_OBJECT_0 {
			close(gone)
		}
	}()
	return gone
}
