//go:build race

package steal_test

// slowdown is what tests divide their number of random tables by.
const slowdown = 10
