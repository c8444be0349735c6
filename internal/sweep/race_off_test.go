//go:build !race

package sweep_test

// slowdown is what tests divide their number of rows by.
const slowdown = 1
