package life

import (
	"context"
	"errors"
	"time"

	"tablesweep/internal/job/estimate"
	"tablesweep/internal/job/sweep"
	"tablesweep/internal/problem"
	"tablesweep/internal/scans"
	"tablesweep/internal/split/adaptive"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// estimateTime is the time limit for a count. It is short, because a caller waits.
const estimateTime = 20 * time.Second

// ledgerRequests is the number of requests that a step makes to the ledger and the queues.
const ledgerRequests = 3

// usualQueries is the approximate mean number of queries in an invocation. An invocation may be allowed more queries,
// but each query reads a page of another step, and an invocation seldom finds that many steps.
const usualQueries = 2

// Estimate counts the rows that a scan would read, and returns what it would cost. It checks the permission to write to
// the destination, and changes nothing. The report says whether the count ended in time.
func (ck *Checker) Estimate(ctx context.Context, r scans.Request) (estimate.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, scans.StartTime)
	defer cancel()
	if r.IsGroup() {
		return estimate.Report{}, problem.Invalidf("source.tables", "many tables cannot be estimated together; name one table")
	}
	o, err := ck.check(ctx, r)
	if err != nil {
		return estimate.Report{}, err
	}
	creates := false
	if o.Missing != nil {
		if creates, err = o.Missing(ctx); err != nil {
			return estimate.Report{}, err
		}
	}
	rows := sweep.Spec{Source: o.Source, Bounds: r.Range, Filter: r.Filter, PageRows: r.PageRows(), Strategy: o.Strategy}
	_, rows.Steal = o.Strategy.(adaptive.Strategy)
	perStep := float64(ledgerRequests)
	if o.Deletes() {
		perStep++ // to commit the deletion
	}
	if r.Limits != nil {
		perStep += scans.SlotRequests
	}
	work := estimate.Work{PerQuery: perStep / float64(min(o.Queries, usualQueries)), Price: ck.scans.Options.Price}
	if does := o.Writes().Action; does != nil {
		work.Writes = func(rows []storage.Row) int {
			if r.Action.Map != "" { // the number of rows that the map returns is unknown
				return len(rows)
			}
			return len(does.Split(rows))
		}
	}
	report, err := estimate.Count(ctx, rows, sweep.Options{Memory: ck.scans.Options.Memory}, estimateTime, work)
	if errors.Is(err, task.ErrInterrupted) {
		err = ctx.Err()
	}
	report.Creates = creates
	if r.Limits != nil && err == nil {
		report.LeastSeconds = r.Limits.Takes(*report.Rows[0], report.Requests).Round(time.Second).Seconds()
	}
	return report, err
}
