package memory

import (
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"

	"tablesweep/internal/proof"
)

// TestLimitLeavesRoomForFiles compares the limits with and without a file that is held in memory. It is not parallel, because the limit is that of
// the whole process.
func TestLimitLeavesRoomForFiles(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "")
	before := debug.SetMemoryLimit(math.MaxInt64)
	defer debug.SetMemoryLimit(before)
	file := filepath.Join(t.TempDir(), "checkpoint")
	proof.Must(t, os.WriteFile(file, make([]byte, 1<<20), 0o600))
	Limit("", file)
	with := debug.SetMemoryLimit(-1)
	Limit()
	if without := debug.SetMemoryLimit(-1); without != limit || with != without+fileWeight<<20 {
		t.Errorf("the limit is %d bytes, and %d bytes with a file of 1 MiB", without, with)
	}
	var a, b Held
	for _, tt := range []struct {
		held        *Held
		bytes, want int64
	}{{&a, 5, limit + 5}, {&b, 7, limit + 12}, {&a, 2, limit + 9}, {&b, 0, limit + 2}, {&a, 0, limit}} {
		if tt.held.Set(tt.bytes); debug.SetMemoryLimit(-1) != tt.want {
			t.Errorf("the limit is %d, want %d", debug.SetMemoryLimit(-1), tt.want)
		}
	}
	debug.SetMemoryLimit(math.MaxInt64)
	a.Set(5)
	if debug.SetMemoryLimit(-1) != math.MaxInt64 {
		t.Error("Held has set a limit although there was none before")
	}
}
