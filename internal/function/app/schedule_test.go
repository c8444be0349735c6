package app_test

import (
	"testing"
	"time"

	"tablesweep/internal/function/app"
)

func TestSchedule(t *testing.T) {
	t.Parallel()
	// 21 November 2026 is a Saturday.
	from := time.Date(2026, 11, 21, 10, 7, 30, 0, time.UTC)
	tests := []struct{ name, schedule, want string }{
		{"every second", "* * * * * *", "2026-11-21T10:07:31Z"},
		{"every minute", "0 * * * * *", "2026-11-21T10:08:00Z"},
		{"every five minutes", "0 */5 * * * *", "2026-11-21T10:10:00Z"},
		{"without seconds", "*/5 * * * *", "2026-11-21T10:10:00Z"},
		{"weekday names", "0 30 9 * * Mon-Fri", "2026-11-23T09:30:00Z"},
		// NCRONTAB: the 13th and a Friday. cron would take the next Friday.
		{"day and weekday", "0 0 0 13 * 5", "2027-08-13T00:00:00Z"},
		{"leap day", "0 0 0 29 2 *", "2028-02-29T00:00:00Z"},
		{"time span", "00:00:45", "2026-11-21T10:08:15Z"},
		{"time span of days", "2.00:00:00", "2026-11-23T10:07:30Z"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s, err := app.ParseSchedule(test.schedule)
			if err != nil {
				t.Fatal(err)
			}
			for _, zone := range []*time.Location{time.UTC, time.FixedZone("x", 5*3600)} {
				if got := s.Next(from.In(zone)).UTC().Format(time.RFC3339); got != test.want {
					t.Errorf("Next(%v) = %s, want %s", from.In(zone), got, test.want)
				}
			}
		})
	}
}

func TestScheduleRefuses(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"", "x", "* * * *", "0 0 0 30 2 *", "60 * * * * *", "* * * * * * *", "0 0 0 ? * *", "TZ=UTC 0 * * * * *",
		"@every 5s", "00:00:00", "-00:01:00", "24:00:00",
	} {
		if _, err := app.ParseSchedule(s); err == nil {
			t.Errorf("ParseSchedule(%q) accepted it", s)
		}
	}
}
