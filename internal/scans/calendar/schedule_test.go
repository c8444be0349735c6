package calendar_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tablesweep/internal/proof"
	"tablesweep/internal/scans/calendar"
	"tablesweep/internal/scans/ledger"
)

func cron(t *testing.T, text string) calendar.Cron {
	t.Helper()
	c, err := calendar.ParseCron(text)
	proof.Must(t, err)
	return c
}

func at(text string) time.Time {
	t, err := time.Parse("2006-01-02T15:04:05", text)
	if err != nil {
		panic(err)
	}
	return t
}

// A schedule's expression has six fields, and the first is for the seconds.
func ExampleParseCron() {
	c, err := calendar.ParseCron("0 */5 * * * *")
	fmt.Println(c.Next(at("2026-01-01T12:03:20")), err)
	_, err = calendar.ParseCron("*/5 * * * *")
	fmt.Println(err)
	// Output:
	// 2026-01-01 12:05:00 +0000 UTC <nil>
	// "*/5 * * * *" does not have the six fields of an NCRONTAB expression, such as "0 */5 * * * *"
}

// A prefix may contain the time of the occurrence.
func ExampleFill() {
	fmt.Println(calendar.Fill("nightly/{date}", at("2026-11-22T03:00:00")))
	// Output: nightly/2026-11-22T0300
}

func TestID(t *testing.T) {
	early, late := calendar.ID("nightly", at("2026-11-22T03:00:00")), calendar.ID("nightly", at("2026-11-23T03:00:00"))
	if !ledger.ScanID(early).Valid() || late >= early || early != calendar.ID("nightly", at("2026-11-22T03:00:00")) || early == calendar.ID("weekly", at("2026-11-22T03:00:00")) {
		t.Errorf("got ids %s and %s of two nights", early, late)
	}
}

func TestDecide(t *testing.T) {
	night := cron(t, "0 0 3 * * *")
	for _, tt := range []struct {
		name         string
		decided, now string
		running      bool
		want         string // the occurrence, whether it starts, and the number of missed ones
	}{
		{"before", "2026-11-21T12:00:00", "2026-11-22T02:59:59", false, "- false 0"},
		{"on the second", "2026-11-21T12:00:00", "2026-11-22T03:00:00", false, "22T0300 true 0"},
		{"decided", "2026-11-22T03:00:00", "2026-11-22T03:00:59", false, "- false 0"},
		{"late", "2026-11-21T12:00:00", "2026-11-22T23:00:00", false, "22T0300 true 0"},
		{"three missed", "2026-11-18T03:00:00", "2026-11-22T03:01:00", false, "22T0300 true 3"},
		{"running", "2026-11-21T03:00:00", "2026-11-22T03:01:00", true, "22T0300 false 0"},
		{"running, and missed", "2026-11-20T03:00:00", "2026-11-22T03:01:00", true, "22T0300 false 1"},
		{"the clock was set back", "2026-11-22T03:00:00", "2026-11-20T03:00:00", false, "- false 0"},
		{"years", "2000-01-01T00:00:00", "2026-11-22T02:00:00", false, "21T0300 true 1000"},
	} {
		d := night.Decide(at(tt.decided), tt.running, at(tt.now))
		occurrence := "-"
		if !d.Occurrence.IsZero() {
			occurrence = d.Occurrence.Format("02T1504")
		}
		if got := fmt.Sprint(occurrence, " ", d.Start, " ", d.Missed); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestOverdue(t *testing.T) {
	days := cron(t, "0 0 3 * * Mon-Fri")
	for now, want := range map[string]bool{"2026-11-20T04:00:00": false, "2026-11-23T04:00:00": false, "2026-11-24T02:59:59": false, "2026-11-24T03:00:00": true} { // from a Friday to a Tuesday
		if got := days.Overdue(at("2026-11-20T03:00:00"), at(now)); got != want {
			t.Errorf("at %s: overdue is %v, want %v", now, got, want)
		}
	}
}

// twin is a simple form of restic's rules. For each rule, it lists the newest backup of each period, newest first, and keeps as many as the
// rule allows. If the list is shorter than that, the rule also keeps the oldest backup.
func twin(k calendar.Keep, all []time.Time) map[time.Time]bool {
	kept := map[time.Time]bool{}
	if len(all) > 0 {
		kept[slices.MaxFunc(all, time.Time.Compare)] = true
	}
	for form, n := range map[string]int{"2006-01-02T15:04:05": k.Last, "2006-01-02": k.Daily, "week": k.Weekly, "2006-01": k.Monthly} {
		newest := map[string]time.Time{}
		for _, b := range all {
			period := b.Format(form)
			if form == "week" { // a week belongs to the year of its Thursday
				weekday := (int(b.Weekday()) + 6) % 7
				period = b.AddDate(0, 0, 3-weekday).Format("2006-01-02")
			}
			if b.After(newest[period]) {
				newest[period] = b
			}
		}
		var periods []time.Time
		for _, b := range newest {
			periods = append(periods, b)
		}
		slices.SortFunc(periods, func(a, b time.Time) int { return b.Compare(a) })
		for i := range min(n, len(periods)) {
			kept[periods[i]] = true
		}
		if n > len(periods) && len(all) > 0 {
			kept[slices.MinFunc(all, time.Time.Compare)] = true
		}
	}
	return kept
}

// TestKeep compares Keep with twin, over years of nightly backups with gaps, two backups in a night, and turns of the year.
func TestKeep(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		k := calendar.Keep{Last: r.IntN(8), Daily: r.IntN(15), Weekly: r.IntN(9), Monthly: r.IntN(13)}
		var all []time.Time
		for night := at("2019-11-01T03:00:00").AddDate(0, 0, r.IntN(900)); len(all) < 1+r.IntN(600); night = night.Add(time.Duration(1+r.IntN(60)) * time.Hour) {
			all = append(all, night)
		}
		slices.Reverse(all)
		want := twin(k, all)
		outdated := k.Outdated(all)
		for i, b := range all {
			if gone := slices.Contains(outdated, i); gone == want[b] {
				t.Fatalf("seed %d, keep %+v: backup %v of %d: got deleted %v", seed, k, b, len(all), gone)
			}
		}
	}
	if (calendar.Keep{}).Check() == nil || (calendar.Keep{Last: -1}).Check() == nil || (calendar.Keep{Monthly: 12}).Check() != nil {
		t.Error("Check accepts a Keep that it must refuse, or refuses a valid one")
	}
}

// TestKeepOverAYear checks which backups usual rules keep after a year of nightly backups.
func TestKeepOverAYear(t *testing.T) {
	var all []time.Time
	for night := at("2026-12-31T03:00:00"); night.Year() == 2026; night = night.AddDate(0, 0, -1) {
		all = append(all, night)
	}
	outdated := calendar.Keep{Last: 3, Daily: 5, Weekly: 3, Monthly: 4}.Outdated(all)
	var kept []string
	for i, b := range all {
		if !slices.Contains(outdated, i) {
			kept = append(kept, b.Format("0102"))
		}
	}
	if got := strings.Join(kept, " "); got != "1231 1230 1229 1228 1227 1220 1130 1031 0930" {
		t.Errorf("got the kept backups %s", got)
	}
}
