package engine_test

import (
	"fmt"
	"testing"

	"tablesweep/internal/scans/ledger"
)

// BenchmarkCopyRequests counts the storage requests of a copy per 1,000 rows: those of the steps, the ledger, the
// queues and the deliveries. It compares them with the minimum: one read, and one write for each transaction. It fails
// if a copy by the default strategy exceeds its limit. docs/measurements.md shows the figures.
func BenchmarkCopyRequests(b *testing.B) {
	for _, tt := range []struct {
		size, rows int // the number of rows in a partition, and in all
		limit      float64
		strategy   string
		segments   int
	}{
		{1, 20_000, 1.03, "adaptive", 1},
		{10, 60_000, 1.12, "adaptive", 1},
		{100, 200_000, 1.7, "adaptive", 1},
		{10_000, 200_000, 1.95, "adaptive", 1}, // 0.4 % of these requests are for folding
		{100, 200_000, 1.37, "adaptive", 4},
		{10_000, 200_000, 1.63, "adaptive", 4},
		{100, 100_000, 2.5, "prefix", 1},
		{100, 100_000, 1.7, "prefix", 8},
	} {
		name := fmt.Sprintf("%d rows a partition, %s, %d segments", tt.size, tt.strategy, tt.segments)
		b.Run(name, func(b *testing.B) {
			for range b.N {
				w := withSource(b, tt.rows/tt.size, tt.size)
				w.emulator.ResetCounts()
				r := copyRequest("Source", "Target")
				r.Strategy, r.SegmentsPerInvocation = tt.strategy, tt.segments
				id := w.start(r)
				w.drain()
				c := w.emulator.Counts()
				w.checkCounts(id, ledger.Succeeded, tt.rows, tt.rows, 0)
				requests := float64(c.TableTransactions()+c.QueueTransactions()) / float64(tt.rows/1000)
				bound := 1 + 1000/float64(min(tt.size, 100))
				b.ReportMetric(requests, "requests/1000rows")
				b.ReportMetric(requests/bound, "×bound")
				if requests > tt.limit*bound {
					b.Errorf("%.2f requests per 1,000 rows, want at most %.2f times %.0f", requests, tt.limit, bound)
				}
			}
		})
	}
}
