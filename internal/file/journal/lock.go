package journal

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/gofrs/flock"

	"tablesweep/internal/file"
)

// The lock file's path is the journal's path plus lockExt. The journal itself cannot be locked, because a rename
// replaces it.
const lockExt = ".lock"

// ErrLocked is the error of a journal that another process uses.
var ErrLocked = errors.New("another process is using it")

// Guard is a lock on a path. Close releases it.
type Guard struct{ lock *flock.Flock }

// Lock prevents other processes from locking the path, until this process ends or closes the guard. On a file system without locks
// it does nothing.
func Lock(path string) (*Guard, error) {
	for range tries {
		if _, err := file.PathAt(path + lockExt).Stat(); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		lock := flock.New(path+lockExt, flock.SetPermissions(0o600))
		locked, err := lock.TryLock()
		switch {
		case errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.ENOLCK):
			return &Guard{lock}, nil
		case err != nil:
			return nil, withPath(path, err)
		case !locked:
			return nil, fmt.Errorf("%s: %w", path, ErrLocked)
		}
		if ours, err := lock.Stat(); err == nil {
			if there, err := os.Lstat(path + lockExt); err == nil && os.SameFile(ours, there) {
				return &Guard{lock}, nil
			}
		}
		if err := lock.Close(); err != nil { // the lock is on a file that its previous holder has removed
			return nil, withPath(path, err)
		}
	}
	return nil, fmt.Errorf("%s: %w", path, ErrLocked)
}

// tries is the maximum number of attempts. If the previous holder has removed the lock file, Lock tries again. After
// the last attempt, the path counts as locked.
const tries = 100

// Close releases the lock and removes its file.
func (g *Guard) Close() error {
	// The file is removed while it is locked, so that other processes that have opened the file notice the removal.
	removed := os.Remove(g.lock.Path())
	err := g.lock.Close()
	// Some systems do not remove open files. On such systems, the file is removed after it is unlocked, unless another process has locked it.
	if removed != nil {
		_ = os.Remove(g.lock.Path())
	}
	return err
}

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

// withPath makes an error begin with the given path, instead of another path such as a temporary file's.
func withPath(path string, err error) error {
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
