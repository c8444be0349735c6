// Package proof and the packages below it contain code that only tests use.
package proof

import "errors"

// T is a test or a benchmark, or a type that embeds one.
type T interface {
	Helper()
	Fatal(args ...any)
}

// Must ends the test if there is an error.
func Must(t T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}
