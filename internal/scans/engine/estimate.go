package engine

import (
	"context"
	"errors"
	"time"

	"tablesweep/internal/job/estimate"
	"tablesweep/internal/job/sweep"
	"tablesweep/internal/problem"
	"tablesweep/internal/split/adaptive"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// estimateTime bounds an estimate's count: its caller waits for it.
const estimateTime = 20 * time.Second

// ledgerRequests is how many requests a step makes to the ledger and the queues.
const ledgerRequests = 3

// usualQueries is how many queries an invocation makes on the mean, about, where it may make more: it seldom finds as many steps.
const usualQueries = 2

// Estimate counts the rows that a scan would meet, and says what it would cost. It checks that it may write to the
// destination, and changes nothing. [estimate.Report] tells whether the time sufficed.
func (ck *Checker) Estimate(ctx context.Context, r Request) (estimate.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if r.isGroup() {
		return estimate.Report{}, problem.Invalidf("source.tables", "can't be estimated; name one table")
	}
	o, err := ck.check(ctx, r)
	if err != nil {
		return estimate.Report{}, err
	}
	creates := false
	if o.missing != nil {
		if creates, err = o.missing(ctx); err != nil {
			return estimate.Report{}, err
		}
	}
	rows := sweep.Spec{Source: o.source, Bounds: r.Range, Filter: r.Filter, PageRows: r.segmentSize(), Strategy: o.strategy}
	_, rows.Steal = o.strategy.(adaptive.Strategy)
	perStep := float64(ledgerRequests)
	if o.deletes() {
		perStep++ // to commit the deletion
	}
	if r.Limits != nil {
		perStep += slotRequests
	}
	work := estimate.Work{PerQuery: perStep / float64(min(o.queries, usualQueries)), Price: ck.scans.options.Price}
	if does := o.writes().action; does != nil {
		work.Writes = func(rows []storage.Row) int {
			if r.Action.Map != "" { // nobody knows what they become
				return len(rows)
			}
			return len(does.Split(rows))
		}
	}
	report, err := estimate.Count(ctx, rows, sweep.Options{Memory: ck.scans.options.Memory}, estimateTime, work)
	if errors.Is(err, task.ErrInterrupted) {
		err = ctx.Err()
	}
	report.Creates = creates
	if r.Limits != nil && err == nil {
		report.LeastSeconds = r.Limits.takes(*report.Rows[0], report.Requests).Round(time.Second).Seconds()
	}
	return report, err
}
