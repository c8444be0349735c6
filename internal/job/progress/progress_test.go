package progress_test

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/job/progress"
	"tablesweep/internal/job/sweep"
	"tablesweep/internal/proof"
	"tablesweep/internal/storage"
)

// progressAt returns the progress of a sweep of 1,000 rows a second.
func progressAt(seconds int) sweep.Progress {
	t := sweep.Totals{Rows: int64(seconds) * 1000, Requests: int64(seconds) * 50}
	return sweep.Progress{Totals: t, Run: t, Elapsed: time.Duration(seconds) * time.Second, Ranges: 7}
}

func meter(out io.Writer, s progress.Style) *progress.Meter {
	m := progress.New(out)
	m.Use(s)
	return m
}

// lastLine returns the last line as figures.
func lastLine(t *testing.T, out *bytes.Buffer) (f progress.Figures) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	proof.Must(t, json.Unmarshal([]byte(lines[len(lines)-1]), &f))
	return f
}

func TestJSONLines(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	m := meter(&out, progress.Auto)
	m.Phase("copying")
	m.Expect(100_000)
	for s := 1; s <= 30; s++ {
		m.Show(progressAt(s))
	}
	if n := strings.Count(out.String(), "\n"); n != 6 {
		t.Fatalf("got %d lines in 30 s, want 6:\n%s", n, out.String())
	}
	f := lastLine(t, &out)
	if f.Phase != "copying" || f.Rows != 30_000 || f.RowsPerSec != 1000 || f.Requests != 1500 || f.Ranges != 7 || f.Percent == nil || *f.Percent != 30 || f.Left == nil || *f.Left != 70 {
		t.Errorf("got %s", out.String())
	}
}

// The share done is shown if the number of rows is known. The time left is shown if the rate is known as well.
func TestShare(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		rows    int64
		seconds int
		want    string // part of the line
		left    bool
	}{
		{"unknown", 0, 30, "", false},
		{"known", 50_000, 30, "60 %", true},
		{"known, soon", 50_000, 5, "10 %", false},
		{"more than expected", 20_000, 30, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			m := meter(&out, progress.Plain)
			m.Expect(tt.rows)
			m.Show(progressAt(tt.seconds))
			line := out.String()
			if strings.Contains(line, "%") != (tt.want != "") || !strings.Contains(line, tt.want) || strings.Contains(line, "s left,") != tt.left {
				t.Errorf("got %q", line)
			}
		})
	}
}

// Rows of an earlier run or an earlier phase do not count for the rate.
func TestRatesStartAgainInEachPhase(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	m := meter(&out, progress.JSON)
	p := progressAt(10)
	p.Rows += 1_000_000 // rows of an earlier run
	m.Show(p)
	if f := lastLine(t, &out); f.Rows != 1_010_000 || f.RowsPerSec != 1000 {
		t.Errorf("after a resume, got the figures %+v", f)
	}
	m.Phase("verifying")
	m.Show(progressAt(5))
	if f := lastLine(t, &out); f.Phase != "verifying" || f.RowsPerSec != 1000 || f.Percent != nil {
		t.Errorf("in the next phase, got the figures %+v", f)
	}
	p = progressAt(5)
	p.Elapsed = 15 * time.Second // ten of these seconds were an outage
	if m.Show(p); lastLine(t, &out).RowsPerSec != 0 {
		t.Errorf("in an outage, got the figures %+v", lastLine(t, &out))
	}
	p = progressAt(10)
	p.Elapsed = 20 * time.Second
	if m.Show(p); lastLine(t, &out).RowsPerSec != 1000 { // the rate since the outage
		t.Errorf("five seconds after an outage, got the figures %+v", lastLine(t, &out))
	}
}

// In the style json, all output is JSON. Outages are reported in every style.
func TestMessagesHaveTheStyle(t *testing.T) {
	for style, want := range map[progress.Style]string{
		progress.JSON: `{"warning":"waiting for h for 30s: connection refused"}
{"failed":"a row"}
{"warning":"h answers again"}
`,
		progress.None: `tablesweep: warning: waiting for h for 30s: connection refused
tablesweep: failed: a row
tablesweep: warning: h answers again
`,
	} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			m := meter(&out, style)
			began := time.Now()
			m.Await(t.Context(), outage(func() []storage.Outage {
				if age := time.Since(began); age < 30*time.Second || age > 80*time.Second {
					return nil
				}
				return []storage.Outage{{Waiting: 1, Connection: "h", Since: began, Cause: "connection refused"}}
			}))
			time.Sleep(40 * time.Second)
			m.Print("failed", "a row")
			time.Sleep(time.Minute)
			synctest.Wait()
			if out.String() != want {
				t.Errorf("%s: got\n%s", style, out.String())
			}
		})
	}
}

// outage is an account that reports the outages that the function returns.
type outage func() []storage.Outage

func (o outage) Outages() []storage.Outage { return o() }

func TestInterruptIsShownImmediately(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	m := meter(&out, progress.None)
	p := progressAt(1)
	m.Show(p)
	p.Stopping, p.Reading, p.Working = true, 1, 16
	m.Show(p)
	m.Show(p)
	if want := "tablesweep: warning: interrupted: waiting for 17 requests; press Ctrl-C again to end\n"; out.String() != want {
		t.Errorf("got %q", out.String())
	}
}

// Text from elsewhere does not control the terminal, and does not look like a message of this program.
func TestMessagesArePlainText(t *testing.T) {
	t.Parallel()
	const message = "table red\x1b[31m\u009b2J\ntablesweep: error: none\x7f\u202e"
	for style, want := range map[progress.Style]string{
		progress.Plain: "tablesweep: warning: table red\\u001b[31m\\u009b2J\n  tablesweep: error: none\\u007f\\u202e\n",
		progress.JSON:  `{"warning":"table red\u001b[31m\u009b2J\ntablesweep: error: none\u007f\u202e"}` + "\n",
	} {
		var out bytes.Buffer
		meter(&out, style).Print("warning", message)
		if out.String() != want {
			t.Errorf("%s: got %q, want %q", style, out.String(), want)
		}
	}
}
