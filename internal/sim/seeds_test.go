//go:build !race

package sim_test

// How much is run unless flags say otherwise.
const (
	defaultSeeds = 100
	sameSeeds    = 10 // of TestSameSeedSameRun
	crashStep    = 1  // TestEveryCrashPoint tries every one
	race         = false
)
