package engine

import (
	"context"
	"time"

	"tablesweep/internal/scan/estimate"
	"tablesweep/internal/scan/estimate/survey"
	"tablesweep/internal/storage"
)

// effort bounds an estimate: its caller waits for it.
var effort = survey.Effort{Queries: 10_000, Time: 20 * time.Second}

// Estimates assume one instance, whose steps make three requests each to the ledger and the
// queues.
const (
	instanceParallel = 64 // requests under way
	ledgerRequests   = 3
)

// Estimate returns about how many rows a scan would meet, and what it would cost. It reads
// keys, checks that it may write to the destination, and changes nothing.
func (e *Engine) Estimate(ctx context.Context, r Request) (estimate.Report, error) {
	run, err := e.open(r)
	if err != nil {
		return estimate.Report{}, err
	}
	if err := e.checkDestination(run); err != nil {
		return estimate.Report{}, err
	}
	if err := probe(ctx, run.source, r); err != nil {
		return estimate.Report{}, err
	}
	creates := false
	if run.work.lookAt != nil {
		if creates, err = run.work.lookAt(ctx); err != nil {
			return estimate.Report{}, err
		}
	}
	q := storage.Query{Range: r.Range.Range(), Filter: r.Filter, Top: r.segmentSize()}
	found, latency, err := survey.Rows(ctx, run.source, q, effort)
	if err != nil {
		return estimate.Report{}, err
	}
	w := estimate.Plan{Segment: r.segmentSize(), PerQuery: ledgerRequests / float64(run.segments), Transactions: run.work.packs, Messages: r.Action.Type == Enqueue, Parallel: instanceParallel, Latency: latency, Price: e.options.Price}
	report := found.Report(w)
	report.Creates = creates
	return report, nil
}
