package key

import (
	"fmt"
	"strconv"
	"time"
)

// Tick is .NET's unit of time, and the resolution of the service's times and of keys made of times.
const Tick = 100 * time.Nanosecond

// MaxTicks is .NET's DateTime.MaxValue.Ticks, 9999-12-31T23:59:59.9999999Z.
const MaxTicks = 3155378975999999999

// unixEpoch is 1970-01-01T00:00:00Z in ticks.
const unixEpoch = 621355968000000000

// Inverted returns the time as a key that sorts newest first: DateTime.MaxValue.Ticks
// minus the time's own ticks, in 19 digits, which is the log-tail pattern of Microsoft's
// table design guide. Ticks count from the year 1. The time is cut to a
// tick, and must lie in the years 1 to 9999. Package logtail keeps keys of one tick apart.
func Inverted(t time.Time) string {
	n := unixEpoch + t.Unix()*1e7 + int64(t.Nanosecond()/100)
	return fmt.Sprintf("%019d", MaxTicks-n)
}

// InvertedTime returns the time that the key was made of.
func InvertedTime(inverted string) (time.Time, error) {
	u, err := strconv.ParseUint(inverted, 10, 64) // which takes no sign
	if err != nil || len(inverted) != 19 || u > MaxTicks {
		return time.Time{}, fmt.Errorf("%q is not a time of 19 digits", inverted)
	}
	n := MaxTicks - int64(u) - unixEpoch
	return time.Unix(n/1e7, n%1e7*100).UTC(), nil
}
