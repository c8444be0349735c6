// Package proof has what tests alone use. Its packages have more of it.
package proof

import "errors"

// T is a test, a benchmark, or what has one.
type T interface {
	Helper()
	Fatal(args ...any)
}

// Must ends the test unless what it needs has worked.
func Must(t T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}
