package calendar

import (
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// Cron is an NCRONTAB expression, in UTC.
type Cron struct{ spec *cron.SpecSchedule }

// starBit marks a field that is * in the expression. With this mark on one of the two day fields, package cron fires
// only when both day fields match. Without the mark, package cron fires when either day field matches.
const starBit = 1 << 63

// ParseCron reads six NCRONTAB fields: second minute hour day month weekday. An expression that never fires is an error.
func ParseCron(s string) (Cron, error) {
	if len(strings.Fields(s)) != 6 {
		return Cron{}, fmt.Errorf(`%q does not have the six fields of an NCRONTAB expression, such as "0 */5 * * * *"`, s)
	}
	if strings.ContainsAny(s, "?@=") {
		return Cron{}, fmt.Errorf(`%q: NCRONTAB does not support "?", "@" or "="`, s)
	}
	parser := cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)
	parsed, err := parser.Parse(s)
	if err != nil {
		return Cron{}, fmt.Errorf("%q is not an NCRONTAB expression: %w", s, err)
	}
	spec := parsed.(*cron.SpecSchedule)
	spec.Location = time.UTC
	// NCRONTAB fires only when both the day of the month and the weekday match.
	spec.Dom |= starBit
	c := Cron{spec}
	if c.Next(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return Cron{}, fmt.Errorf("%q never fires", s)
	}
	return c, nil
}

// Next returns the first time after t at which c fires, or the zero time if c does not fire within five years.
func (c Cron) Next(t time.Time) time.Time { return c.spec.Next(t.UTC()) }
