package key

import (
	"fmt"
	"strconv"
	"time"
)

// Tick is .NET's unit of time, 100 ns. It is the resolution of the service's times, and of keys made from times.
const Tick = 100 * time.Nanosecond

// MaxTicks is .NET's DateTime.MaxValue.Ticks, 9999-12-31T23:59:59.9999999Z.
const MaxTicks = 3155378975999999999

// unixEpoch is 1970-01-01T00:00:00Z in ticks.
const unixEpoch = 621355968000000000

// Ticks returns the number of ticks from the start of year 1 to t, rounded down.
func Ticks(t time.Time) int64 { return unixEpoch + t.Unix()*1e7 + int64(t.Nanosecond()/100) }

// TickTime is the inverse of [Ticks], in UTC.
func TickTime(ticks int64) time.Time {
	n := ticks - unixEpoch
	return time.Unix(n/1e7, n%1e7*100).UTC()
}

// Inverted returns a key for the time: DateTime.MaxValue.Ticks minus the time's ticks, in 19 digits. Keys of later times sort
// first. This is the log-tail pattern of Microsoft's table design guide. The time is rounded down to a tick, and must be in the
// years 1 to 9999. Times within one tick have the same key; package logtail distinguishes them.
func Inverted(t time.Time) string {
	return fmt.Sprintf("%019d", MaxTicks-Ticks(t))
}

// InvertedTime is the inverse of [Inverted].
func InvertedTime(inverted string) (time.Time, error) {
	u, err := strconv.ParseUint(inverted, 10, 64) // ParseUint refuses a sign
	if err != nil || len(inverted) != 19 || u > MaxTicks {
		return time.Time{}, fmt.Errorf("%q is not an inverted time of 19 digits", inverted)
	}
	return TickTime(MaxTicks - int64(u)), nil
}
