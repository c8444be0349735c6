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
	// hostLimit is the setting in which the Functions platform states an instance's memory, in MB of 1,048,576 bytes.
	hostLimit = "WEBSITE_MEMORY_LIMIT_MB"
	// defaultMemory is used if nothing states an instance's memory. It is the default of Flex Consumption. (Microsoft Learn, "Azure
	// Functions Flex Consumption plan hosting")
	defaultMemory = 2048 * mib
	// hostMemory is the part of an instance's memory that the Functions host uses. Measurements showed 180 to 220 MB.
	hostMemory = 220 * mib
	// otherMemory is the memory of the process outside its budget: the runtime, caches, requests under way, and garbage between two
	// collections.
	otherMemory = 80 * mib
	// Least is the minimum memory, in bytes, that the Functions host should leave to the app on an instance.
	Least = 96 * mib

	leastMB, mostMB = 256, 1 << 20 // of the setting
)

// Instance is the memory of the instance, or of the machine, that the process runs on.
type Instance struct {
	Bytes int64
	From  string // the source of Bytes: a setting's name, or another description
}

// InstanceOf determines the memory from the settings, from the limit of the process's control group, or from
// [defaultMemory]. `get` returns the value of a setting. The error names the invalid setting.
func InstanceOf(get func(string) string) (Instance, error) {
	if text := get(Setting); text != "" {
		mb, err := strconv.ParseInt(text, 10, 64)
		if err != nil || mb < leastMB || mb > mostMB {
			return Instance{defaultMemory, "the default"}, fmt.Errorf("setting %s must be a whole number of MB, from %d to %d, such as 2048", Setting, leastMB, mostMB)
		}
		return Instance{mb * mib, Setting}, nil
	}
	if mb, err := strconv.ParseInt(get(hostLimit), 10, 64); err == nil && mb > 0 && mb <= mostMB {
		return Instance{mb * mib, hostLimit}, nil
	}
	if limit, err := memlimit.FromCgroup(); err == nil && limit > 0 && limit <= mostMB*mib {
		return Instance{int64(limit), "the control group"}, nil
	}
	return Instance{defaultMemory, "the default"}, nil
}

// Left is the part of the instance's memory, in bytes, that the Functions host leaves to the app.
func (i Instance) Left() int64 { return max(0, i.Bytes-hostMemory) }

// Budget returns the budget of an app that shares the instance with the Functions host. The budget is half of [Instance.Left]. The other
// half is for the garbage between two collections, which is about as large as the memory in use.
func (i Instance) Budget() *Budget { return NewBudget(i.share()) }

func (i Instance) share() int64 { return max(i.Left()/2, 8*mib) }

// Limit sets the garbage collector's limit for an app that shares the instance with the Functions host.
func (i Instance) Limit() { limitGC(i.share() + otherMemory) }

// limitGC sets the garbage collector's limit to the given number of bytes, and the collector's percentage to the constant
// `percent`. If the environment sets one of these two values, limitGC leaves it unchanged.
func limitGC(bytes int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(bytes)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}
