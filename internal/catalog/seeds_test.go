//go:build !race

package catalog_test

// How many seeds are run unless a flag says otherwise.
const defaultSeeds = 30
