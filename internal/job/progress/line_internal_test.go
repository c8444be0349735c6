package progress

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"tablesweep/internal/job/sweep"
)

// If a line is too long for the terminal, the least important figures are left out. No line is longer than the terminal is wide.
func TestLineFits(t *testing.T) {
	t.Parallel()
	percent, left := 42.0, 4000.0
	f := Figures{
		Phase: "copying", Rows: 123_456_789, RowsPerSec: 54_321, Failed: 3, Requests: 1_234_567, Throttles: 77, Ranges: 1,
		Bytes: 98_700_000_000, Underway: 37, Limit: 64, Percent: &percent, Left: &left, Seconds: 2400, noun: "row",
	}
	whole := "copying 123456789 rows, 42 %, about 1h6m40s left, 3 FAILED, 54321 rows/s, 40m0s, 98.7 GB, 77 throttled, 37 of 64 running, 1234567 requests, 1 range left"
	if got := f.line(0); got != whole {
		t.Errorf("got %q", got)
	}
	for columns, want := range map[int]string{
		139: "copying 123456789 rows, 42 %, about 1h6m40s left, 3 FAILED, 54321 rows/s, 40m0s, 98.7 GB, 77 throttled, 37 of 64 running, 1234567 requests",
		79:  "copying 123456789 rows, 42 %, about 1h6m40s left, 3 FAILED, 54321 rows/s",
		39:  "copying 123456789 rows, 42 %",
		10:  "copying 12",
	} {
		if got := f.line(columns); got != want {
			t.Errorf("%d columns: got %q, want %q", columns, got, want)
		}
	}
	f.Failed, f.Differ = 0, 5
	if got, want := f.line(79), "copying 123456789 rows, 42 %, about 1h6m40s left, 5 DIFFER, 54321 rows/s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	f.Waiting = []Wait{{"orders.table.core.windows.net", 12, "connection refused"}}
	f.Stopping = true
	for columns := 1; columns < 200; columns++ {
		if n := utf8.RuneCountInString(f.line(columns)); n > columns {
			t.Errorf("the line for %d columns has %d characters", columns, n)
		}
	}
	for columns, want := range map[int]string{
		79:  "interrupted; press Ctrl-C again to end, waiting for orders.table.core.windows.n",
		99:  "interrupted; press Ctrl-C again to end, waiting for orders.table.core.windows.net for 12s",
		119: "copying 123456789 rows, interrupted; press Ctrl-C again to end, waiting for orders.table.core.windows.net for 12s, 42 %",
		139: "copying 123456789 rows, interrupted; press Ctrl-C again to end, waiting for orders.table.core.windows.net for 12s, 42 %, 5 DIFFER",
	} {
		if got := f.line(columns); got != want {
			t.Errorf("%d columns: got %q, want %q", columns, got, want)
		}
	}
	f.Stopping, f.Waiting[0].Cause = false, "malformed HTTP response \x1b[2J"+strings.Repeat("\x00", 300) // the line must escape these characters
	if got, want := f.line(119), `copying 123456789 rows, waiting for orders.table.core.windows.net for 12s: malformed HTTP response \u0…, 42 %, 5 DIFFER`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	f.Waiting = nil
	f.Stopping = true
	if got, want := f.line(79), "interrupted: waiting for 37 requests; press Ctrl-C again to end"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSize(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1 kB", 999_600: "1 MB", 123_456_789: "123 MB", 5_000_000_000_000_000: "5e+03 TB"} {
		if got := size(n); got != want {
			t.Errorf("%d bytes: got %s, want %s", n, got, want)
		}
	}
}

// A terminal that cannot move its cursor gets plain lines, one below the other.
func TestDumbTerminalGetsPlainLines(t *testing.T) {
	for term, live := range map[string]bool{"xterm": true, "dumb": false} {
		t.Setenv("TERM", term)
		var out strings.Builder
		m := New(&out)
		m.terminal = true
		m.Use(Auto)
		m.Show(sweep.Progress{Elapsed: 5 * time.Second})
		if got := out.String(); strings.Contains(got, "\x1b") != live || !strings.Contains(got, "0 rows") || strings.Contains(got, "{") {
			t.Errorf("TERM=%s: got %q", term, got)
		}
	}
}
