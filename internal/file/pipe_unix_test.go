//go:build unix

package file_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"tablesweep/internal/file"
	"tablesweep/internal/proof"
)

// A pipe in place of a regular file is refused, without waiting for the pipe's other end.
func TestPipeIsNotAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	proof.Must(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	p := file.PathIn(dir, "pipe")
	_, err := p.Read()
	_, openErr := p.Open(os.O_RDWR | os.O_CREATE)
	for _, err := range []error{err, openErr, p.Replace(nil)} {
		if !errors.Is(err, file.ErrNotRegular) {
			t.Errorf("got %v", err)
		}
	}
}

// A pipe in place of a directory is refused, without waiting for the pipe's other end.
func TestPipeIsNotADirectory(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	proof.Must(t, syscall.Mkfifo(pipe, 0o600))
	for _, p := range []file.Path{file.PathIn(pipe, "one"), file.PathAt(filepath.Join(pipe, "one"))} {
		if _, err := p.Stat(); !errors.Is(err, syscall.ENOTDIR) {
			t.Errorf("got %v", err)
		}
	}
}

// An interrupt ends waiting for a pipe: for its other end, for its input, and for the possibility to write.
func TestOpenPipe(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe")
	proof.Must(t, syscall.Mkfifo(path, 0o600))
	for _, flag := range []int{os.O_RDONLY, os.O_WRONLY} {
		ctx, interrupt := context.WithCancel(t.Context())
		interrupt()
		if _, err := file.OpenPipe(ctx, path, flag, 0); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
	ctx, interrupt := context.WithCancel(t.Context())
	both, err := os.OpenFile(path, os.O_RDWR, 0)
	proof.Must(t, err)
	defer both.Close()
	in, err := file.OpenPipe(ctx, path, os.O_RDONLY, 0)
	proof.Must(t, err)
	out, err := file.OpenPipe(ctx, path, os.O_WRONLY, 0)
	proof.Must(t, err)
	read := make(chan error)
	go func() {
		_, err := io.ReadAll(in)
		read <- err
	}()
	interrupt()
	if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("reading ended with %v", err)
	}
	if _, err := out.Write(bytes.Repeat([]byte("x"), 1<<21)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("writing ended with %v", err)
	}
}
