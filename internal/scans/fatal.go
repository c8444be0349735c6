package scans

import (
	"errors"
	"fmt"

	"tablesweep/internal/storage"
)

// maxReason is the maximum length, in bytes, of a reason that is stored with a step or a row.
const maxReason = 2000

// FatalError is an error that would occur again if the step were repeated. Such an error fails the scan.
type FatalError struct{ error }

func (f *FatalError) Unwrap() error { return f.error }

// Fatal returns err as a fatal error.
func Fatal(err error) *FatalError { return &FatalError{err} }

// FatalIfPermanent makes a permanent storage error fatal, and begins the error's text with the name of the action that
// failed.
func FatalIfPermanent(action string, err error) error {
	if !errors.As(err, new(*FatalError)) && storage.Permanent(err) {
		return &FatalError{fmt.Errorf("%s: %w", action, err)}
	}
	return err
}

// Shortened returns the first maxReason bytes of a reason.
func Shortened(reason string) string { return reason[:min(len(reason), maxReason)] }
