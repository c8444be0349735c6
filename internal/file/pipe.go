package file

import (
	"context"
	"os"
	"time"

	"tablesweep/internal/task"
)

// grace is how long an interrupted command may still write to a pipe.
const grace = time.Second

// OpenPipe opens a file as [os.OpenFile] does. The user names this file, which may be a pipe or a device. When ctx
// ends, OpenPipe stops waiting for the pipe's other end, and pending reads and writes fail with
// [os.ErrDeadlineExceeded].
func OpenPipe(ctx context.Context, path string, flag int, mode os.FileMode) (*os.File, error) {
	type result struct {
		f   *os.File
		err error
	}
	opened := make(chan result, 1)
	var opener task.Group
	opener.Go(func() error { // ends when the file is open or the process ends
		f, err := os.OpenFile(path, flag, mode)
		opened <- result{f, err}
		return nil
	})
	var r result
	select {
	case r = <-opened:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if r.err != nil {
		return nil, r.err
	}
	if info, err := r.f.Stat(); err == nil && !info.Mode().IsRegular() {
		context.AfterFunc(ctx, func() {
			_ = r.f.SetReadDeadline(time.Now()) // fails for a device without deadlines
			_ = r.f.SetWriteDeadline(time.Now().Add(grace))
		})
	}
	return r.f, nil
}
