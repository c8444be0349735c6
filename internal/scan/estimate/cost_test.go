package estimate_test

import (
	"testing"
	"time"

	"tablesweep/internal/scan/estimate"
)

func TestCost(t *testing.T) {
	t.Parallel()
	counted := func(rows, transactions, busiest float64) estimate.Estimate {
		return estimate.Estimate{Rows: estimate.Interval{Low: rows, High: rows}, Transactions: estimate.Interval{Low: transactions, High: transactions}, Busiest: busiest, Exact: true}
	}
	work := estimate.Plan{Segment: 1000, Transactions: true, Parallel: 100, Latency: 10 * time.Millisecond, Price: 1}
	messages := work
	messages.Transactions, messages.Messages = false, true
	for _, tt := range []struct {
		name              string
		work              estimate.Plan
		e                 estimate.Estimate
		requests, seconds float64
	}{
		{"a queue's limit", messages, counted(1_000_000, 10_000, 0), 1_001_100, 500},
		{"nothing costs a query", work, counted(0, 0, 0), 1, 0.0001},
		{"the account's limit", work, counted(1_000_000, 10_000, 1000), 11_100, 50},
		{"one partition's limit", work, counted(1_000_000, 10_000, 1_000_000), 11_100, 500},
		{"a row a transaction: the caller's own limit", work, counted(1_000_000, 1_000_000, 0), 1_001_100, 100.11},
	} {
		c := tt.e.Cost(tt.work)
		near := func(a, b float64) bool { return a > b*0.999 && a < b*1.001 }
		if !near(c.Requests.Low, tt.requests) || !near(c.Seconds.Low, tt.seconds) || !near(c.Dollars.High, tt.requests/10_000) {
			t.Errorf("%s: %+v, want %v requests, %v s", tt.name, c, tt.requests, tt.seconds)
		}
	}
}

// TestReportHasNoDigitsTooMany rounds what was not counted.
func TestReportHasNoDigitsTooMany(t *testing.T) {
	t.Parallel()
	e := estimate.Estimate{Rows: estimate.Interval{Low: 234_650, High: 1_234_567}, Queries: 50}
	r := e.Report(estimate.Plan{Segment: 1000, Parallel: 1, Price: estimate.Price})
	if r.Rows != [2]int64{230_000, 1_300_000} || r.Requests != 590 || r.Dollars != 0.000021 {
		t.Errorf("%+v, want rows 230,000 to 1,300,000, 590 requests and $0.000021", r)
	}
}
