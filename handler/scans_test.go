package main

import (
	"strings"
	"testing"

	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/scans/status"
)

// TestPrintStatus: a running scan's rate, progress and time left are shown if they are known, and are otherwise left out.
func TestPrintStatus(t *testing.T) {
	t.Parallel()
	progress, rate, left := 0.25, 1234.4, 90.0
	s := status.Status{ID: "1", State: ledger.Running, Phase: status.Working}
	var unknown, known strings.Builder
	printStatus(&unknown, s)
	s.Progress, s.Rate, s.SecondsLeft = &progress, &rate, &left
	printStatus(&known, s)
	for _, line := range []string{"progress\t25 %\n", "rate\t1234 rows per second\n", "left\t1m30s\n"} {
		name, _, _ := strings.Cut(line, "\t")
		if !strings.Contains(known.String(), line) || strings.Contains(unknown.String(), name) {
			t.Errorf("want %q if it is known:\n%s\nand no %s if not:\n%s", line, &known, name, &unknown)
		}
	}
	s.Range.Before, s.Filter = "b", "N gt 3"
	printStatus(&known, s)
	if !strings.Contains(known.String(), "before\t\"b\"\nfilter\t\"N gt 3\"\n") {
		t.Errorf("want the scan's range and filter:\n%s", &known)
	}
	if !strings.Contains(known.String(), "state\trunning, working\n") {
		t.Errorf("want the phase:\n%s", &known)
	}
}
