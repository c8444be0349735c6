//go:build !race

package testsize

// race reports whether the race detector is on.
const race = false
