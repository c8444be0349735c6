package engine

import (
	"context"
	"errors"
	"time"

	"tablesweep/internal/sweep"
	"tablesweep/internal/sweep/estimate"
)

// estimateTime bounds an estimate's count: its caller waits for it.
const estimateTime = 20 * time.Second

// ledgerRequests is how many requests a step makes to the ledger and the queues.
const ledgerRequests = 3

// Estimate counts the rows that a scan would meet, and says what it would cost. It
// checks that it may write to the destination, and changes nothing. [estimate.Report] tells
// whether the time sufficed.
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
	rows := sweep.Spec{Table: run.source, Bounds: r.Range, Filter: r.Filter, Segment: r.segmentSize(), Strategy: run.strategy}
	work := estimate.Work{Writes: run.work.requests, PerQuery: ledgerRequests / float64(run.segments), Price: e.options.Price}
	report, err := estimate.Count(ctx, rows, sweep.Options{}, estimateTime, work)
	if errors.Is(err, sweep.ErrInterrupted) {
		err = ctx.Err()
	}
	report.Creates = creates
	return report, err
}
