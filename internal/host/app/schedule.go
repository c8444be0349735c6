package app

import (
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// Schedule is when a timer fires: an NCRONTAB expression in UTC, or a
// fixed interval.
type Schedule struct {
	cron     *cron.SpecSchedule // nil for an interval
	interval time.Duration
}

// starBit marks a field of cron's schedule that was written as *. If either day
// field has it, cron requires both days to match; otherwise one is enough.
const starBit = 1 << 63

// ParseSchedule reads a timer's schedule: six NCRONTAB fields (second minute hour
// day month weekday), five without the seconds, or a time span. An expression
// that never fires is an error.
func ParseSchedule(s string) (Schedule, error) {
	fields := strings.Fields(s)
	if len(fields) < 5 {
		d, err := parseTimeSpan(s)
		if err != nil || d <= 0 {
			return Schedule{}, fmt.Errorf(`%q is neither an NCRONTAB expression of six fields ("0 */5 * * * *") nor a time span ("00:05:00")`, s)
		}
		return Schedule{interval: d}, nil
	}
	if len(fields) == 5 {
		fields = append([]string{"0"}, fields...)
	}
	if strings.ContainsAny(s, "?@=") {
		return Schedule{}, fmt.Errorf("%q: NCRONTAB knows no ?, @ and =", s)
	}
	parser := cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)
	parsed, err := parser.Parse(strings.Join(fields, " "))
	if err != nil {
		return Schedule{}, fmt.Errorf("%q is not an NCRONTAB expression: %w", s, err)
	}
	spec := parsed.(*cron.SpecSchedule)
	spec.Location = time.UTC
	// NCRONTAB fires when the day of the month and the weekday both match. cron fires
	// when one of them does, unless one is *.
	spec.Dom |= starBit
	if spec.Next(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return Schedule{}, fmt.Errorf("%q never fires", s)
	}
	return Schedule{cron: spec}, nil
}

// Next returns the schedule's first time after t.
func (s Schedule) Next(t time.Time) time.Time {
	if s.cron == nil {
		return t.Add(s.interval)
	}
	return s.cron.Next(t.UTC())
}

// Interval reports whether the schedule is a fixed interval.
func (s Schedule) Interval() bool { return s.cron == nil }
