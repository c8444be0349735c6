package calendar

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"
	"time"

	"tablesweep/internal/key"
)

// dateForm is the layout in which [Fill] writes an occurrence's time. Blob names allow all characters of this layout.
const dateForm = "2006-01-02T1504"

// ID returns the id of the scan that an occurrence of a schedule starts. Every process computes the same id, so the
// scan starts once. Ids of later occurrences sort first.
func ID(name string, occurrence time.Time) string {
	sum := sha256.Sum256([]byte(name))
	return key.Inverted(occurrence) + "-" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:6])
}

// Date is the text in a prefix that [Fill] replaces by the occurrence.
const Date = "{date}"

// Fill replaces [Date] in a prefix by the occurrence.
func Fill(prefix string, occurrence time.Time) string {
	return strings.ReplaceAll(prefix, Date, occurrence.UTC().Format(dateForm))
}

// mostMissed is the maximum of [Decision.Missed]. It keeps Decide fast if the app was stopped for years.
const mostMissed = 1000

// Decision is the result of a check of a schedule.
type Decision struct {
	Occurrence time.Time // the newest due occurrence; zero if none is due
	Start      bool      // start the occurrence's scan; if false, skip it
	Missed     int       // number of earlier occurrences that are still undecided; at most 1,000
}

// Decide returns the newest due occurrence. The argument `decided` is the newest occurrence that an earlier call
// returned. The argument `running` is true if the schedule's last scan still runs. If several occurrences are due, only
// the newest one may start a scan. If the last scan still runs, even the newest occurrence is skipped.
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

// newest returns the newest occurrence in the interval (after, until], or the zero time.
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

// Overdue reports whether two occurrences have passed since the newest success.
func (c Cron) Overdue(since, now time.Time) bool {
	first := c.Next(since)
	second := c.Next(first)
	return !first.IsZero() && !second.IsZero() && !second.After(now)
}
