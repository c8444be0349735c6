// Package testsize decides how much work the slow tests do. By default, and under the race detector, a test that would take longer than about two seconds
// does a small part of its work. scripts/test.sh runs these tests in full, except the slowest ones, which do more work, and all of it only with --long. No
// other setting changes what tests do.
package testsize

import "os"

// set returns the value of the environment variable TABLESWEEP_TESTS: "" for the small sizes, "more" or "full". Under the race detector, tests take ten times
// as long, so their sizes are always small.
func set() string {
	if race {
		return ""
	}
	return os.Getenv("TABLESWEEP_TESTS")
}

// Full reports whether tests do all of their work, except the slowest ones.
func Full() bool { return set() == "more" || set() == "full" }

// Long reports whether even the slowest tests do all of their work, as with --long.
func Long() bool { return set() == "full" }

// Of returns the size that a test has in this run.
func Of[T any](small, full T) T {
	if Full() {
		return full
	}
	return small
}

// Slow returns the size that one of the slowest tests has in this run.
func Slow[T any](small, more, full T) T {
	if Long() {
		return full
	}
	return Of(small, more)
}

// InFull skips a test unless tests do all of their work. It is for tests that prove nothing in a small size.
func InFull(t interface{ Skip(...any) }) {
	if !Full() {
		t.Skip("skipped, because it does much work; TABLESWEEP_TESTS=full runs it")
	}
}

// WithoutRace skips a test under the race detector. It is for tests that count or measure for a long time, in packages whose other tests do the same work
// concurrently. scripts/test.sh runs the tests without the race detector as well.
func WithoutRace(t interface{ Skip(...any) }) {
	if race {
		t.Skip("skipped, because it takes long under the race detector")
	}
}

// Apart returns the number of requests between two points at which a test ends a process. Under the race detector, it is 25 times n.
func Apart(n int) int {
	if race {
		return 25 * n
	}
	return n
}
