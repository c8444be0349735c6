package scans

import (
	"errors"
	"fmt"

	"tablesweep/internal/storage"
)

// maxReason bounds the reason that is stored with a step or a row, in bytes.
const maxReason = 2000

// FatalError is an error that repeating cannot fix. It fails the scan.
type FatalError struct{ error }

func (f *FatalError) Unwrap() error { return f.error }

// Fatal returns err as a fatal error.
func Fatal(err error) *FatalError { return &FatalError{err} }

// FatalIfPermanent makes a permanent storage error fatal. The error's text then begins with the argument what, which names the
// failed attempt.
func FatalIfPermanent(what string, err error) error {
	if !errors.As(err, new(*FatalError)) && storage.Permanent(err) {
		return &FatalError{fmt.Errorf("%s: %w", what, err)}
	}
	return err
}

// Shortened returns the first maxReason bytes of a reason.
func Shortened(reason string) string { return reason[:min(len(reason), maxReason)] }
