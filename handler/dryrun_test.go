package main

import (
	"strings"
	"testing"
	"time"

	"tablesweep/internal/scan/estimate"
)

// A sample's numbers are ranges of two digits, a count's are exact.
func TestPrintEstimate(t *testing.T) {
	t.Parallel()
	plan := estimate.Plan{Segment: 1000, Transactions: true, Parallel: 128, Latency: 20 * time.Millisecond, Price: estimate.Price}
	counted := estimate.Interval{Low: 1, High: 1}
	for _, tt := range []struct {
		name string
		e    estimate.Estimate
		want string
	}{
		{"sampled", estimate.Estimate{Rows: estimate.Interval{Low: 183_456, High: 5_132_000}, Transactions: estimate.Interval{Low: 60_000, High: 1_700_000}, Queries: 40_000},
			"would copy 180000 to 5200000 rows, sampled by 40000 queries of 20ms each\n60000 to 1800000 requests\nat least 9s to 4m30s, at 128 requests at once\n$0.0022 to $0.0614, at $0.00036 for 10,000 requests\nyes\n"},
		{"counted", estimate.Estimate{Rows: counted, Transactions: counted, Queries: 1, Exact: true},
			"would copy 1 row, counted by 1 query of 20ms each\n2 requests\nat least 0s, at 128 requests at once\nless than $0.0001, at $0.00036 for 10,000 requests\nyes\n"},
	} {
		var out strings.Builder
		if err := printEstimate(&out, "copy", tt.e, plan, "yes"); err != nil || out.String() != tt.want {
			t.Errorf("%s: %v, got\n%s", tt.name, err, out.String())
		}
	}
}
