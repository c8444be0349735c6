//go:build !race

package adaptive_test

// slowdown is what tests divide their number of random tables by.
const slowdown = 1
