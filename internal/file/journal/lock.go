package journal

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/gofrs/flock"

	"tablesweep/internal/file"
)

// lockExt is appended to the journal's path for the lock, since a rename replaces the journal itself.
const lockExt = ".lock"

// ErrLocked is the error of a journal that another process goes on with.
var ErrLocked = errors.New("another process is using it")

// Guard is a lock that is held.
type Guard struct{ lock *flock.Flock }

// Lock locks a path against other processes that lock it, until this one ends or closes the guard. A file system
// without locks gets none.
func Lock(path string) (*Guard, error) {
	for range tries {
		if _, err := file.At(path + lockExt).Stat(); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		lock := flock.New(path+lockExt, flock.SetPermissions(0o600))
		locked, err := lock.TryLock()
		switch {
		case errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.ENOLCK):
			return &Guard{lock}, nil
		case err != nil:
			return nil, about(path, err)
		case !locked:
			return nil, fmt.Errorf("%s: %w", path, ErrLocked)
		}
		if ours, err := lock.Stat(); err == nil {
			if there, err := os.Lstat(path + lockExt); err == nil && os.SameFile(ours, there) {
				return &Guard{lock}, nil
			}
		}
		if err := lock.Close(); err != nil { // of a file that its holder removed before we locked it
			return nil, about(path, err)
		}
	}
	return nil, fmt.Errorf("%s: %w", path, ErrLocked)
}

// tries is how often a lock's file may vanish before the path counts as locked: it has many users then.
const tries = 100

// Close ends the lock, and leaves no file of it.
func (g *Guard) Close() error {
	removed := os.Remove(g.lock.Path()) // while it is held: others that have opened it find it gone
	err := g.lock.Close()
	if removed != nil { // where an open file can't be removed, one that is locked again can't either
		_ = os.Remove(g.lock.Path())
	}
	return err
}

// acquire locks the journal.
func (f *File) acquire() (err error) {
	f.lock, err = Lock(f.path)
	return err
}

func (f *File) release() error {
	if f.lock == nil {
		return nil
	}
	err := f.lock.Close()
	f.lock = nil
	return err
}

// about returns the error with the path of the file that the user named, in place of that of
// another file, such as a temporary one.
func about(path string, err error) error {
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
	return fmt.Errorf("%s: %w", path, err)
}
