package calendar

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"
	"time"

	"tablesweep/internal/key"
)

// dateForm is how an occurrence stands in a prefix. It has no character that names of blobs must not have.
const dateForm = "2006-01-02T1504"

// ID returns the id of the scan that an occurrence of a schedule starts. Whoever starts it makes the same, so it starts once. It has the
// form of all scans' ids: those of later occurrences sort first.
func ID(name string, occurrence time.Time) string {
	sum := sha256.Sum256([]byte(name))
	return key.Inverted(occurrence) + "-" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:6])
}

// Date is the placeholder in prefixes that stands for the occurrence.
const Date = "{date}"

// Fill returns a prefix for an occurrence.
func Fill(prefix string, occurrence time.Time) string {
	return strings.ReplaceAll(prefix, Date, occurrence.UTC().Format(dateForm))
}

// mostMissed bounds what is counted: an app may be stopped for years.
const mostMissed = 1000

// Decision is what a look at a schedule comes to.
type Decision struct {
	Occurrence time.Time // the newest that is due; zero if none is
	Start      bool      // its scan is to start; else it is skipped
	Missed     int       // occurrences before that nobody has looked at in time, at most 1,000
}

// Decide decides which occurrence is due. decided is the newest one that was decided before; running, whether the scan that was started last
// runs. Of missed occurrences only the newest starts. None does before the last one's scan has ended.
func (c Cron) Decide(decided time.Time, running bool, now time.Time) Decision {
	newest := c.newest(decided, now)
	if newest.IsZero() {
		return Decision{}
	}
	d := Decision{Occurrence: newest, Start: !running}
	for t := c.Next(decided); t.Before(newest) && d.Missed < mostMissed; t = c.Next(t) {
		d.Missed++
	}
	return d
}

// newest returns the newest occurrence after a time, until another. It is zero if there is none.
func (c Cron) newest(after, until time.Time) (newest time.Time) {
	for back := time.Hour; newest.IsZero(); back *= 2 {
		from := until.Add(-back)
		last := !from.After(after)
		if last {
			from = after
		}
		for t := c.Next(from); !t.IsZero() && !t.After(until); t = c.Next(t) {
			newest = t
		}
		if last {
			break
		}
	}
	return newest
}

// Overdue reports whether two occurrences have passed since a time: the newest success is older than two periods.
func (c Cron) Overdue(since, now time.Time) bool {
	first := c.Next(since)
	second := c.Next(first)
	return !first.IsZero() && !second.IsZero() && !second.After(now)
}
