package app

import (
	"fmt"
	"strings"
	"time"

	"tablesweep/internal/engine/schedule"
)

// Schedule is when a timer fires: an NCRONTAB expression in UTC, or a
// fixed interval.
type Schedule struct {
	cron     schedule.Cron
	interval time.Duration // 0 for an expression
}

// ParseSchedule reads a timer's schedule: six NCRONTAB fields (second minute hour
// day month weekday), five without the seconds, or a time span. An expression
// that never fires is an error.
func ParseSchedule(s string) (Schedule, error) {
	n := len(strings.Fields(s))
	if n < 5 {
		d, err := parseTimeSpan(s)
		if err != nil || d <= 0 {
			return Schedule{}, fmt.Errorf(`%q is neither an NCRONTAB expression of six fields ("0 */5 * * * *") nor a time span ("00:05:00")`, s)
		}
		return Schedule{interval: d}, nil
	}
	if n == 5 {
		s = "0 " + s
	}
	cron, err := schedule.ParseCron(s)
	return Schedule{cron: cron}, err
}

// Next returns the schedule's first time after t.
func (s Schedule) Next(t time.Time) time.Time {
	if s.interval > 0 {
		return t.Add(s.interval)
	}
	return s.cron.Next(t)
}

// Interval reports whether the schedule is a fixed interval.
func (s Schedule) Interval() bool { return s.interval > 0 }
