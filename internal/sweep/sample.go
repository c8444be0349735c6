package sweep

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"tablesweep/internal/adaptive"
	"tablesweep/internal/copier"
	"tablesweep/internal/scan"
	"tablesweep/internal/storage"
)

// Estimate is a guess at what a scan will find.
type Estimate struct {
	Rows    float64
	Batches float64       // transactions that writing them takes
	Exact   bool          // the sample has read all rows
	Queries int           // of the sample
	Latency time.Duration // of a query, on average
}

// Sample reads keys by at most the given number of queries, those first that are
// believed to stand for the most rows, and estimates the rest.
func Sample(ctx context.Context, s Scan, queries int) (Estimate, error) {
	var e Estimate
	var strategy adaptive.Strategy
	segment := cmp.Or(s.Segment, storage.PageRows)
	pending := []scan.Step{strategy.Start(s.Bounds)}
	began := time.Now()
	for len(pending) > 0 && e.Queries < queries {
		i := largest(pending)
		step := pending[i]
		p, err := s.Table.Query(ctx, storage.Query{Range: step.Range, Filter: s.Filter, Select: []string{}, Top: segment, Token: step.Token})
		if err != nil {
			return e, fmt.Errorf("read the source: %w", err)
		}
		o, err := strategy.Advance(step, scan.Page{Keys: p.Keys(), Next: p.Next})
		if err != nil {
			return e, err
		}
		e.Queries++
		e.Rows += float64(o.Yield)
		e.Batches += float64(copier.Chunks(p.Entities[:o.Yield]))
		pending[i] = pending[len(pending)-1]
		pending = append(pending[:len(pending)-1], o.Children...)
	}
	e.Latency = time.Since(began) / time.Duration(max(1, e.Queries))
	e.Exact = len(pending) == 0
	if e.Rows > 0 {
		read := e.Rows
		for _, step := range pending {
			pages, _ := adaptive.Left(step)
			e.Rows += pages * float64(segment)
		}
		e.Batches *= e.Rows / read
	}
	return e, nil
}

// largest returns the step that stands for the most rows, one that nothing is known
// of before all others.
func largest(steps []scan.Step) int {
	best, most := 0, -1.0
	for i, s := range steps {
		pages, ok := adaptive.Left(s)
		if !ok {
			return i
		}
		if pages > most {
			best, most = i, pages
		}
	}
	return best
}
