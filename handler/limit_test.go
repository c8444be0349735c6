package main

import (
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"
)

// TestMemoryLimitLeavesRoomForLists compares the limits with and without a list of
// rows, which is kept in memory. It runs alone, since the limit is the process's.
func TestMemoryLimitLeavesRoomForLists(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "")
	before := debug.SetMemoryLimit(math.MaxInt64)
	defer debug.SetMemoryLimit(before)
	list := filepath.Join(t.TempDir(), "rows.jsonl")
	if err := os.WriteFile(list, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	limitMemory("", list)
	with := debug.SetMemoryLimit(-1)
	limitMemory()
	if without := debug.SetMemoryLimit(-1); without != memoryLimit || with != without+listWeight<<20 {
		t.Errorf("the limit is %d, and %d with a list of 1 MiB", without, with)
	}
}
