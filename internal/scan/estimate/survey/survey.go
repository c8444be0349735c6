// Package survey takes the samples of a table that package estimate decides on.
package survey

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"tablesweep/internal/scan"
	"tablesweep/internal/scan/estimate"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// parallel is how many queries are under way at once.
const parallel = 64

// Effort is what a survey may cost.
type Effort struct {
	Queries int           // about
	Time    time.Duration // after it, the survey ends soon; after twice the time, at once
}

// Rows estimates how many rows a query of partition keys finds, with all pages. It reads
// their keys alone. latency is that of a query, on average.
func Rows(ctx context.Context, t *storage.Table, q storage.Query, effort Effort) (e estimate.Estimate, latency time.Duration, err error) {
	q.Top, q.Select = cmp.Or(q.Top, storage.PageRows), []string{}
	sample := estimate.New(q.Range, q.Top, effort.Queries)
	began, took := time.Now(), time.Duration(0)
	for {
		steps := sample.Queries()
		if len(steps) == 0 || time.Since(began) > 2*effort.Time {
			break
		}
		pages := make([]scan.Page, len(steps))
		times := make([]time.Duration, len(steps))
		g, ctx := task.WithContext(ctx)
		g.SetLimit(parallel)
		for i, step := range steps {
			g.Go(func() error {
				q := q
				q.Range, q.Token = step.Range, step.Token
				asked := time.Now()
				p, err := t.Query(ctx, q)
				pages[i], times[i] = scan.Page{Keys: p.Keys(), Next: p.Next}, time.Since(asked)
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return e, 0, fmt.Errorf("read the source: %w", err)
		}
		for _, t := range times {
			took += t
		}
		sample.Answer(pages)
		if time.Since(began) > effort.Time {
			sample.Hurry()
		}
	}
	e = sample.Estimate()
	return e, took / time.Duration(max(1, e.Queries)), nil
}
