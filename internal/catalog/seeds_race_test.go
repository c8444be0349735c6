//go:build race

package catalog_test

// The race detector takes ten times as long, and looks for what few runs show.
const (
	race         = true
	defaultSeeds = 10
)
