package engine

import (
	"context"
	"errors"
	"time"

	"tablesweep/internal/storage"
	"tablesweep/internal/sweep"
	"tablesweep/internal/sweep/estimate"
	"tablesweep/internal/task"
)

// estimateTime bounds an estimate's count: its caller waits for it.
const estimateTime = 20 * time.Second

// ledgerRequests is how many requests a step makes to the ledger and the queues.
const ledgerRequests = 3

// Estimate counts the rows that a scan would meet, and says what it would cost. It checks that it may write to the
// destination, and changes nothing. [estimate.Report] tells whether the time sufficed.
func (e *Engine) Estimate(ctx context.Context, r Request) (estimate.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	o, err := e.check(ctx, r)
	if err != nil {
		return estimate.Report{}, err
	}
	creates := false
	if o.work.missing != nil {
		if creates, err = o.work.missing(ctx); err != nil {
			return estimate.Report{}, err
		}
	}
	rows := sweep.Spec{Source: o.source, Bounds: r.Range, Filter: r.Filter, PageRows: r.segmentSize(), Strategy: o.strategy}
	ledger := float64(ledgerRequests)
	if o.work.deletes {
		ledger++ // to commit the deletion
	}
	work := estimate.Work{PerQuery: ledger / float64(o.queries), Price: e.options.Price}
	if o.work.action != nil {
		work.Writes = func(rows []storage.Entity) int { return len(o.work.action.Split(rows)) }
	}
	report, err := estimate.Count(ctx, rows, sweep.Options{}, estimateTime, work)
	if errors.Is(err, task.ErrInterrupted) {
		err = ctx.Err()
	}
	report.Creates = creates
	return report, err
}
