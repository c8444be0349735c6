package scans

import (
	"errors"
	"fmt"

	"tablesweep/internal/storage"
)

// maxReason bounds the reason that is kept with a step or a row, in bytes.
const maxReason = 2000

// FatalError is an error that no repetition mends. It fails the scan.
type FatalError struct{ error }

func (f *FatalError) Unwrap() error { return f.error }

// Fatal returns an error as one that no repetition mends.
func Fatal(err error) *FatalError { return &FatalError{err} }

// FatalIfPermanent makes an error fatal that no repetition mends. what was tried stands before it.
func FatalIfPermanent(what string, err error) error {
	if !errors.As(err, new(*FatalError)) && storage.Permanent(err) {
		return &FatalError{fmt.Errorf("%s: %w", what, err)}
	}
	return err
}

// Shortened returns as much of a reason as is kept.
func Shortened(reason string) string { return reason[:min(len(reason), maxReason)] }
