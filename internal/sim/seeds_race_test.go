//go:build race

package sim_test

// The race detector takes ten times as long, and looks for what few runs show.
const (
	defaultSeeds = 20
	sameSeeds    = 1
	crashStep    = 25
	race         = true
)
