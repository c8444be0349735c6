// Package memory limits the memory of a process through which rows pass. Before work reads rows, it takes a part of the process's [Budget]. The
// garbage collector's limit follows from the budget.
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
	// limit is the garbage collector's limit. Without the limit, the heap would grow to a multiple of the used memory before the
	// next collection.
	limit = Command + otherMemory
	// With this percentage, the heap may grow to four times the memory in use before the next collection, but not beyond the
	// limit. A smaller percentage would cause many collections, because each request of a copy makes garbage.
	percent = 300
	// fileWeight is the maximum number of bytes in memory per byte of a loaded file.
	fileWeight = 16
)

// Limit sets the garbage collector's limit and percentage, unless the environment sets them. Files that are loaded into
// memory, such as a checkpoint, raise the limit, because with too low a limit the collector would run constantly.
// Missing files do not count.
func Limit(files ...string) {
	bytes := int64(limit)
	for _, path := range files {
		if info, err := os.Stat(path); err == nil {
			bytes += fileWeight * info.Size()
		}
	}
	limitGC(bytes)
}

// Held is a large piece of memory that the limit does not include, such as the memory of work that is larger than its budget. While
// the memory is held, Held raises the limit. Otherwise the collector would run constantly. The zero value holds nothing.
type Held struct{ bytes int64 }

var mu sync.Mutex // guards the changes that Held makes to the limit

// Set sets the number of bytes held.
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
