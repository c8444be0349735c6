package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"tablesweep/internal/job/estimate"
)

// TestPrintEstimate: if the time ends the count, the estimate shows a number of rows that is certain, and the cost of more rows.
func TestPrintEstimate(t *testing.T) {
	t.Parallel()
	report := func(rows, requests int64, dollars float64) estimate.Report {
		more := 0.0004
		r := estimate.Report{Rows: [2]*int64{&rows, nil}, Requests: requests, Dollars: dollars}
		if rows > 0 {
			r.DollarsPerMillion, r.PerMillion = &more, 11_230
		}
		return r
	}
	counted := func(r estimate.Report) estimate.Report {
		r.Rows[1], r.Counted = r.Rows[0], true
		return r
	}
	for _, tt := range []struct {
		name string
		r    estimate.Report
		want string
	}{
		{"counted", counted(report(1_423_939, 16_012, 0.000576)), "would copy 1,423,939 rows\nabout 16,012 requests, $0.0006, at $0.0004 for 10,000 requests\nyes\n"},
		{"one", counted(report(1, 2, 7e-8)), "would copy 1 row\nabout 2 requests, less than $0.0001, at $0.0004 for 10,000 requests\nyes\n"},
		{"none", counted(report(0, 1, 4e-8)), "would copy 0 rows\nabout 1 request, less than $0.0001, at $0.0004 for 10,000 requests\nyes\n"},
		{"dollars", counted(report(1_000_000_000, 1_000_000_000, 40)), "would copy 1,000,000,000 rows\nabout 1,000,000,000 requests, $40.00, at $0.0004 for 10,000 requests\nyes\n"},
		{"not all", report(812_345, 9_120, 0.000328),
			"would copy more than 812,000 rows (not all counted in 30 s)\nabout 9,120 requests, $0.0003, for the rows counted\nabout 11,230 requests, $0.0004, for each million beyond\nat $0.0004 for 10,000 requests\nyes\n"},
		{"not found", report(0, 500, 0.00002), "would copy rows, but 30 s were not enough to find one; --dry-run=full counts to the end\nyes\n"},
	} {
		var out strings.Builder
		if err := printEstimate(&out, "copy", tt.r, 0.0004, "yes"); err != nil || out.String() != tt.want {
			t.Errorf("%s: error %v, got\n%s", tt.name, err, out.String())
		}
	}
}

// The result of below is less than any number that was counted.
func TestBelow(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]int64{1: 0, 2: 1, 999: 998, 1000: 999, 1001: 1000, 1010: 1000, 812_000: 811_000, 812_001: 812_000, 1_423_939: 1_420_000} {
		if got := below(n); got != want {
			t.Errorf("below %d: %d, want %d", n, got, want)
		}
	}
}

func TestDryRunFlag(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args string
		want dryRun
		err  string
	}{
		{"", dryRun{}, ""},
		{"--dry-run", dryRun{on: true}, ""},
		{"--dry-run=true", dryRun{on: true}, ""},
		{"--dry-run=full", dryRun{on: true, full: true}, ""},
		{"--dry-run=full --dry-run=false", dryRun{}, ""},
		{"--dry-run=half", dryRun{}, `is "half"; write --dry-run, or --dry-run=full`},
		{"--dry-run=", dryRun{}, `is ""; write --dry-run, or --dry-run=full`},
	} {
		var d dryRun
		c := &cobra.Command{}
		addOptions(c, []option{{"dry-run", perRun, &d, nil, "-"}})
		err := c.ParseFlags(strings.Fields(tt.args))
		if tt.err == "" && (err != nil || d != tt.want) || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%q: got %v, error %v; want %v, error %s", tt.args, d.String(), err, tt.want.String(), tt.err)
		}
	}
}
