package memory

import (
	"fmt"
	"os"
	"runtime/debug"
	"strconv"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

const (
	mib = 1 << 20

	// Setting is the setting with the memory of an instance, in MB of 1,048,576 bytes.
	Setting = "TABLESWEEP_MEMORY_MB"
	// hostLimit is where the Functions platform says it, in the same unit.
	hostLimit = "WEBSITE_MEMORY_LIMIT_MB"
	// standard is the size of an instance that nobody names: the default of Flex Consumption. (Microsoft Learn, "Azure Functions Flex
	// Consumption plan hosting")
	standard = 2048 * mib
	// host is what the Functions host takes of an instance: 180 to 220 MB were measured.
	host = 220 * mib
	// beside is what the process has beside its budget: the runtime, caches, requests under way, and garbage between two collections.
	beside = 80 * mib
	// Least is what an instance should leave to the app beside the host, in bytes.
	Least = 96 * mib

	leastMB, mostMB = 256, 1 << 20 // of the setting
)

// Instance is the memory of the instance, or of the machine, that the process runs on.
type Instance struct {
	Bytes int64
	From  string // what says so: a setting's name, or other words
}

// InstanceOf reads how much memory there is: from the settings, which get returns by name, from the limit of the process's control group, or
// [standard]. The error names the setting that is wrong.
func InstanceOf(get func(string) string) (Instance, error) {
	if text := get(Setting); text != "" {
		mb, err := strconv.ParseInt(text, 10, 64)
		if err != nil || mb < leastMB || mb > mostMB {
			return Instance{standard, "the default"}, fmt.Errorf("setting %s must be a whole number of MB, from %d to %d, such as 2048", Setting, leastMB, mostMB)
		}
		return Instance{mb * mib, Setting}, nil
	}
	if mb, err := strconv.ParseInt(get(hostLimit), 10, 64); err == nil && mb > 0 && mb <= mostMB {
		return Instance{mb * mib, hostLimit}, nil
	}
	if limit, err := memlimit.FromCgroup(); err == nil && limit > 0 && limit <= mostMB*mib {
		return Instance{int64(limit), "the control group"}, nil
	}
	return Instance{standard, "the default"}, nil
}

// Left is what the instance leaves to the app beside the Functions host, in bytes.
func (i Instance) Left() int64 { return max(0, i.Bytes-host) }

// Budget returns the budget of an app that shares the instance with the Functions host: half of what is left, because between two
// collections there is about as much garbage.
func (i Instance) Budget() *Budget { return NewBudget(i.share()) }

func (i Instance) share() int64 { return max(i.Left()/2, 8*mib) }

// Limit sets the garbage collector's limit for such an app.
func (i Instance) Limit() { limitGC(i.share() + beside) }

// limitGC sets the garbage collector's limit, in bytes, and its percentage, unless the environment does.
func limitGC(bytes int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(bytes)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}
