// Package testsize says how much the slow tests do. By default, and under the race detector, a test that would take
// longer than about two seconds does a small part of its work. scripts/test.sh then has each of them do all of it, but
// for the slowest ones: they do more of it, and all of it with --long. This is the only switch.
package testsize

import "os"

// set is the environment variable TABLESWEEP_TESTS: "" for the small sizes, "more" or "full". The race
// detector takes ten times as long, so it sees the small sizes.
func set() string {
	if race {
		return ""
	}
	return os.Getenv("TABLESWEEP_TESTS")
}

// Full reports whether tests do all of their work, but for the slowest ones.
func Full() bool { return set() == "more" || set() == "full" }

// Long reports whether the slowest tests, too, do all of their work: with --long.
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

// InFull skips a test whose claim small sizes can't show, unless tests do all of their work.
func InFull(t interface{ Skip(...any) }) {
	if !Full() {
		t.Skip("does much work; in full it runs: TABLESWEEP_TESTS=full")
	}
}

// WithoutRace skips a test under the race detector: one that counts or measures for long, in a package where others do the same work at
// once. scripts/test.sh runs it besides.
func WithoutRace(t interface{ Skip(...any) }) {
	if race {
		t.Skip("takes long under the race detector; without it, it runs")
	}
}

// Apart returns how far apart the requests are at which a test lets something die. The race detector sees one in 25 of them.
func Apart(n int) int {
	if race {
		return 25 * n
	}
	return n
}
