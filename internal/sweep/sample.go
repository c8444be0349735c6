package sweep

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"tablesweep/internal/estimate"
	"tablesweep/internal/scan"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// sampleParallel is how many queries of a sample are under way at once.
const sampleParallel = 64

// Sample estimates what a scan will find, by about so many queries of its keys. When
// the time is over, it ends soon. latency is that of a query, on average.
func Sample(ctx context.Context, s Scan, queries int, t time.Duration) (e estimate.Estimate, latency time.Duration, err error) {
	segment := cmp.Or(s.Segment, storage.PageRows)
	sample := estimate.New(s.Bounds.Range(), segment, queries)
	began, took := time.Now(), time.Duration(0)
	for {
		steps := sample.Queries()
		if len(steps) == 0 {
			break
		}
		pages := make([]scan.Page, len(steps))
		times := make([]time.Duration, len(steps))
		g, ctx := task.WithContext(ctx)
		g.SetLimit(sampleParallel)
		for i, step := range steps {
			g.Go(func() error {
				asked := time.Now()
				p, err := s.Table.Query(ctx, storage.Query{Range: step.Range, Filter: s.Filter, Select: []string{}, Top: segment, Token: step.Token})
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
		if time.Since(began) > t {
			sample.Hurry()
		}
	}
	e = sample.Estimate()
	return e, took / time.Duration(max(1, e.Queries)), nil
}
