package engine

import (
	"errors"
	"fmt"

	"tablesweep/internal/storage"
)

// maxReason bounds the reason that is kept with a step or a row, in bytes.
const maxReason = 2000

// fatalError is an error that no repetition mends. It fails the scan.
type fatalError struct{ error }

func (f *fatalError) Unwrap() error { return f.error }

// fatal returns an error as one that no repetition mends.
func fatal(err error) error { return &fatalError{err} }

func fatalIfPermanent(what string, err error) error {
	if !errors.As(err, new(*fatalError)) && storage.Permanent(err) {
		return &fatalError{fmt.Errorf("%s: %w", what, err)}
	}
	return err
}

func shortened(reason string) string { return reason[:min(len(reason), maxReason)] }
