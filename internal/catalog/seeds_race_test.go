//go:build race

package catalog_test

// The race detector takes ten times as long, and looks for what few runs show.
const (
	race         = true
	defaultSeeds = 10
	everyRequest = 7 // what dies at each request elsewhere dies at each seventh
)
