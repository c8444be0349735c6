// Package testsize says how much the slow tests do. By default, and under the race detector, a test
// that would take longer than about two seconds does a small part of its work, so that
// `go test ./...` is over soon. scripts/test.sh then has each of them do all of it. This is the
// only switch between the two.
package testsize

import "os"

// Full reports whether tests do all of their work: the environment variable TABLESWEEP_TESTS is
// "full", and the race detector, which takes ten times as long, is off.
func Full() bool { return !Race && os.Getenv("TABLESWEEP_TESTS") == "full" }

// Of returns the size that a test has in this run.
func Of[T any](small, full T) T {
	if Full() {
		return full
	}
	return small
}
