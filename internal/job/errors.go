package job

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"tablesweep/internal/file/journal"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// Refusal is the error of options that can't be as they are. Nothing was done.
type Refusal struct {
	Option string // its name; "" if the error is about several, or none
	Err    error  // what is wrong, in words that go behind the name
}

// Error names the option as a command line does.
func (r Refusal) Error() string {
	if r.Option == "" {
		return r.Err.Error()
	}
	return "--" + r.Option + r.Err.Error()
}

func (r Refusal) Unwrap() error { return r.Err }

// Refuse returns a [Refusal]. The format begins with what stands behind the option's name, such as a colon or a space.
func Refuse(option, format string, args ...any) error {
	return Refusal{option, fmt.Errorf(format, args...)}
}

// Refused reports whether an error is a [Refusal].
func Refused(err error) bool { return errors.As(err, new(Refusal)) }

// Hinted is an error with advice.
type Hinted struct {
	Err  error
	Hint string
}

func (h Hinted) Error() string { return h.Err.Error() }

func (h Hinted) Unwrap() error { return h.Err }

// Hint adds advice to an error.
func Hint(err error, hint string) error { return Hinted{err, hint} }

// Unopened is the error for a file that can't be opened, which an option names, or the error itself. After an interrupt, which ends the wait for
// a pipe, it is [task.ErrInterrupted].
func Unopened(option string, err error) error {
	if errors.Is(err, context.Canceled) {
		return task.ErrInterrupted
	}
	if option == "" {
		return Refusal{Err: err}
	}
	return Refuse(option, ": %w", err)
}

// BadCheckpoint is the error of a checkpoint that is not taken, with advice.
func BadCheckpoint(err error) error {
	refusal := Refuse("", "checkpoint %w", err)
	switch {
	case errors.Is(err, journal.ErrLocked):
		return Hint(refusal, "wait until it has ended, or stop it")
	case errors.Is(err, fs.ErrNotExist):
		return Hint(refusal, "a finished command removes its checkpoint")
	case errors.Is(err, journal.ErrDamaged):
		return Hint(refusal, "bring back a copy of the file, or start over with a new --checkpoint: rows that are done already stay as they are, but enqueue puts their messages again")
	}
	return refusal
}

// blobHint adds to a refusal of the Blob service which permissions are needed.
func blobHint(err error) error {
	if !storage.HasCode(err, "AuthorizationPermissionMismatch", "AuthorizationFailure") || storage.Expired(err) {
		return err
	}
	return Hint(err, "reading takes the role Storage Blob Data Reader, writing Storage Blob Data Contributor, or a SAS with those permissions; the account's firewall may refuse this machine, too")
}
