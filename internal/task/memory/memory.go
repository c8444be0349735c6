// Package memory limits the memory of a process through which rows pass. All that holds rows takes its part of one [Budget] before it
// reads. The garbage collector's limit follows from the budget.
package memory

import (
	"math"
	"os"
	"runtime/debug"
	"sync"
)

const (
	// Command is the budget of a command, in bytes.
	Command = 24 * mib
	// limit is the garbage collector's. Far less memory is in use; without a limit the heap would
	// grow to a multiple of that between two collections.
	limit = Command + beside
	// percent lets the heap grow to four times the memory in use, below the limit, between
	// two collections: a copy makes garbage at the speed of its requests.
	percent = 300
	// fileWeight is how many bytes of memory a byte of a file that is held takes, at most.
	fileWeight = 16
)

// Limit sets the garbage collector's limit and percentage, unless the environment does. The files named,
// such as a checkpoint, are held in memory. They raise the limit: otherwise the collector would
// never rest. Missing files don't count.
func Limit(files ...string) {
	bytes := int64(limit)
	for _, path := range files {
		if info, err := os.Stat(path); err == nil {
			bytes += fileWeight * info.Size()
		}
	}
	limitGC(bytes)
}

// Held is one large piece of memory that work holds beside what the limit is for, such as what is larger than its budget. It raises
// the limit while it is held: otherwise the collector would never rest. The zero value holds nothing.
type Held struct{ bytes int64 }

var mu sync.Mutex // guards changes of the limit by what is held

// Set says how many bytes are held now.
func (h *Held) Set(bytes int64) {
	mu.Lock()
	defer mu.Unlock()
	if bytes == h.bytes {
		return
	}
	if now := debug.SetMemoryLimit(-1); now < math.MaxInt64 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(now + bytes - h.bytes)
		h.bytes = bytes
	}
}
