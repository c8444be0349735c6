//go:build !race

package catalog_test

const (
	race         = false
	defaultSeeds = 30 // runs unless a flag says otherwise
	everyRequest = 1
)
