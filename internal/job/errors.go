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

// Refusal is the error of an invalid option. It means that the command did nothing.
type Refusal struct {
	Option string // the option's name; "" if the error is about several options or none
	Err    error  // the reason; its text follows the name
}

// Error returns a text that begins with the option, such as --from.
func (r Refusal) Error() string {
	if r.Option == "" {
		return r.Err.Error()
	}
	return "--" + r.Option + r.Err.Error()
}

func (r Refusal) Unwrap() error { return r.Err }

// Refuse returns a [Refusal] whose text is the option's name followed by the formatted text. The format therefore begins with a colon or a space.
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

// Unopened returns the error for a file that cannot be opened. The error names the file's option, unless `option` is "". If an interrupt ended the wait
// for a pipe, Unopened returns [task.ErrInterrupted].
func Unopened(option string, err error) error {
	if errors.Is(err, context.Canceled) {
		return task.ErrInterrupted
	}
	if option == "" {
		return Refusal{Err: err}
	}
	return Refuse(option, ": %w", err)
}

// BadCheckpoint adds a hint to the error of a refused checkpoint.
func BadCheckpoint(err error) error {
	refusal := Refuse("", "checkpoint %w", err)
	switch {
	case errors.Is(err, journal.ErrLocked):
		return Hint(refusal, "wait until the other process has ended, or stop that process")
	case errors.Is(err, fs.ErrNotExist):
		return Hint(refusal, "a finished command removes its checkpoint; check the name, or start a new command")
	case errors.Is(err, journal.ErrDamaged):
		return Hint(refusal, "restore a copy of the file, or start over: with a new --checkpoint or, for an export, in another place. If enqueue starts over, it repeats the messages that it has already sent")
	}
	return refusal
}

// blobHint adds a hint about permissions to an error if the Blob service has refused access.
func blobHint(err error) error {
	if !storage.HasCode(err, "AuthorizationPermissionMismatch", "AuthorizationFailure") || storage.Expired(err) {
		return err
	}
	return Hint(err, "an identity needs the role Storage Blob Data Reader to read, and Storage Blob Data Contributor to write; a SAS must permit the same operations; the account's firewall may also be refusing this machine")
}
