//go:build !race

package engine_test

const everyRequest = 1
