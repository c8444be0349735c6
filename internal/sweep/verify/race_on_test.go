//go:build race

package verify_test

// slowdown is what tests divide their number of rows by.
const slowdown = 10
