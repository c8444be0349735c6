package journal

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/gofrs/flock"
)

// What is appended to the journal's path: for the lock, since a rename replaces the journal itself,
// and for the text that is to replace it.
const (
	lockExt = ".lock"
	nextExt = ".new"
)

// ErrLocked is the error of a journal that another process goes on with.
var ErrLocked = errors.New("another process is using it")

// Lock keeps other processes that lock the same path from it, until this one ends or closes the lock. A file system
// without locks gets none.
func Lock(path string) (*flock.Flock, error) {
	lock := flock.New(path+lockExt, flock.SetPermissions(0o600))
	locked, err := lock.TryLock()
	switch {
	case errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.ENOLCK):
	case err != nil:
		return nil, about(path, "lock", err)
	case !locked:
		return nil, fmt.Errorf("%s: %w", path, ErrLocked)
	}
	return lock, nil
}

// acquire locks the journal.
func (f *File) acquire() (err error) {
	if f.lock, err = Lock(f.path); err != nil {
		return fmt.Errorf("checkpoint %w", err)
	}
	return nil
}

func (f *File) release() error {
	if f.lock == nil {
		return nil
	}
	return f.lock.Close()
}

// about returns the error with the path of the file that the user named, in place of that of
// another file, such as a temporary one.
func about(path, op string, err error) error {
	var p *os.PathError
	var l *os.LinkError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &p):
		err = p.Err
	case errors.As(err, &l):
		err = l.Err
	}
	return &os.PathError{Op: op, Path: path, Err: err}
}
