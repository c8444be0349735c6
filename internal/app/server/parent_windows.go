package server

import (
	"context"
	"os"
	"syscall"
)

// parentProcess is a handle of the process that started this one. An id would not do: Windows never changes an orphan's parent
// id, and reuses the id.
type parentProcess struct{ handle syscall.Handle }

func parent() parentProcess {
	h, err := syscall.OpenProcess(syscall.SYNCHRONIZE, false, uint32(os.Getppid()))
	if err != nil {
		return parentProcess{syscall.InvalidHandle} // already ended, or no permission to watch it
	}
	return parentProcess{h}
}

// gone returns a channel that is closed when the parent has ended. It stays open if the parent cannot be watched.
func (p parentProcess) gone(context.Context) <-chan struct{} {
	gone := make(chan struct{})
	if p.handle == syscall.InvalidHandle {
		return gone
	}
	go func() { // ends with the parent, or the process
		if event, err := syscall.WaitForSingleObject(p.handle, syscall.INFINITE); err == nil && event == syscall.WAIT_OBJECT_0 {
			close(gone)
		}
	}()
	return gone
}
