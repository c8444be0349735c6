package progress_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"tablesweep/internal/progress"
	"tablesweep/internal/sweep"
)

// at returns the progress of a sweep of 1,000 rows a second, of 100,000 rows.
func at(seconds int) sweep.Progress {
	t := sweep.Totals{Rows: int64(seconds) * 1000, Requests: int64(seconds) * 50}
	return sweep.Progress{Totals: t, Run: t, Elapsed: time.Duration(seconds) * time.Second, Ranges: 7, Left: float64(100-seconds) * 1000, LeftOK: true}
}

func meter(out *bytes.Buffer, s progress.Style) *progress.Meter {
	m := progress.New(out)
	m.Use(s)
	return m
}

func TestJSONLines(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	m := meter(&out, progress.Auto)
	for s := 1; s <= 30; s++ {
		m.Show(at(s))
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 6 {
		t.Fatalf("%d lines in 30 s, want 6:\n%s", len(lines), out.String())
	}
	var f progress.Figures
	if err := json.Unmarshal([]byte(lines[5]), &f); err != nil {
		t.Fatal(err)
	}
	if f.Rows != 30_000 || f.RowsPerSec != 1000 || f.Requests != 1500 || f.Ranges != 7 || f.Percent == nil || *f.Percent != 30 || f.Left == nil || *f.Left != 70 {
		t.Errorf("got %s", lines[5])
	}
}

func TestUnknownIsLeftOut(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := at(10)
	p.LeftOK = false
	meter(&out, progress.Plain).Show(p)
	if s := out.String(); strings.Contains(s, "%") || strings.Contains(s, "about") || !strings.HasPrefix(s, "10000 rows, 1000 rows/s, 10s") {
		t.Errorf("got %q", s)
	}
}

func TestResumedRowsAreNoSpeed(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := at(10)
	p.Rows += 1_000_000 // by an earlier run
	meter(&out, progress.Plain).Show(p)
	if s := out.String(); !strings.HasPrefix(s, "1010000 rows, ") || !strings.Contains(s, ", 1000 rows/s, ") {
		t.Errorf("got %q", s)
	}
}

func TestNone(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	m := meter(&out, progress.None)
	m.Show(at(10))
	m.Clear()
	if out.Len() > 0 {
		t.Errorf("got %q", out.String())
	}
}
