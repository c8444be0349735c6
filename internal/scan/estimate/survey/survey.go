// Package survey makes the queries of a sample of a table, which package estimate chooses.
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

const (
	parallel = 64           // queries under way at once
	batch    = 4 * parallel // pages in memory at once, at most
)

// Effort is what a survey may cost.
type Effort struct {
	Queries int           // about; fewer if there is no time for them
	Time    time.Duration // after it, the survey ends soon; after twice the time, at once
}

// Rows estimates how many rows a query of partition keys finds on all of its pages. It
// reads keys alone. latency is the mean time that a query took.
func Rows(ctx context.Context, t *storage.Table, q storage.Query, effort Effort) (e estimate.Estimate, latency time.Duration, err error) {
	q.Top, q.Select = cmp.Or(q.Top, storage.PageRows), []string{}
	sample := estimate.New(q.Range, q.Top, effort.Queries)
	began, took, made := time.Now(), time.Duration(0), 0
	for {
		steps := sample.Queries()
		steps = steps[:min(len(steps), batch)]
		if len(steps) == 0 || time.Since(began) > 2*effort.Time {
			break
		}
		round := time.Now()
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
		made += len(steps)
		sample.Answer(pages)
		left := effort.Time - time.Since(began)
		switch {
		case left <= 0:
			sample.Hurry()
		case len(steps) == batch: // smaller ones don't tell how fast queries can be made
			sample.Afford(made + int(batch*left.Seconds()/time.Since(round).Seconds()))
		}
	}
	e = sample.Estimate()
	return e, took / time.Duration(max(1, e.Queries)), nil
}
