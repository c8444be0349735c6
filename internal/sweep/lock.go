package sweep

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/gofrs/flock"
)

// lockExt is appended to the checkpoint's path. The checkpoint itself can't be locked,
// since a rename replaces it.
const lockExt = ".lock"

// ErrLocked is the error of a checkpoint that another process goes on with.
var ErrLocked = errors.New("another process is using it")

// lock keeps other processes from the checkpoint, until this one ends or unlocks. A file
// system without locks gets none.
func (c *Checkpoint) lock() error {
	c.lockFile = flock.New(c.path+lockExt, flock.SetPermissions(0o600))
	locked, err := c.lockFile.TryLock()
	switch {
	case errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.ENOLCK):
		return nil
	case err != nil:
		return fmt.Errorf("checkpoint: %w", about(c.path, "lock", err))
	case !locked:
		return fmt.Errorf("checkpoint %s: %w", c.path, ErrLocked)
	}
	return nil
}

func (c *Checkpoint) unlock() error {
	if c.lockFile == nil {
		return nil
	}
	return c.lockFile.Close()
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
