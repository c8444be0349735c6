package progress

import (
	"context"
	"math"
	"time"

	"tablesweep/internal/job/sweep"
	"tablesweep/internal/storage"
	"tablesweep/internal/task/memory"
)

// total is the number of rows of a phase, at least and at most. Zero means unknown.
type total struct{ low, high int64 }

// known reports whether the total is sharp enough to show a share of it.
func (t total) known() bool {
	const sharp = 0.05
	return t.high > 0 && float64(t.high-t.low) <= sharp*float64(t.high)
}

// besideWorkers is how many requests a count beside the work may have under way.
const besideWorkers = 32

// RowsOf counts the rows of a sweep by their keys alone, in what is free of the memory.
func RowsOf(s sweep.Spec, free *memory.Budget) func(context.Context) (int64, error) {
	return func(ctx context.Context) (int64, error) {
		o := sweep.Options{Workers: besideWorkers, Memory: free, Abort: ctx.Done()}
		t, err := sweep.Count(ctx, s, o, nil)
		return t.Rows, err
	}
}

// counting is a count of the rows of one phase, beside it.
type counting struct {
	ctx     context.Context
	count   func(context.Context) (int64, error) // how many rows the source has now
	removes bool                                 // the phase removes rows: the count misses those that went before it came by
	begun   bool
	at      sweep.Progress // when the count began
	rows    int64          // what it found; 0 while it is under way
}

// worth reports whether a count pays: people have waited for a while, and the phase makes
// so many requests that those of a count hardly matter.
func worth(p sweep.Progress) bool {
	const long, requests = 10 * time.Second, 4 // for each query
	return p.Elapsed >= long && p.Run.Queries > 0 && p.Run.Requests >= requests*p.Run.Queries
}

// total returns what the count says about the phase's rows.
func (c *counting) total(p sweep.Progress) total {
	switch {
	case c.rows == 0:
		return total{}
	case !c.removes:
		return total{c.rows, c.rows}
	}
	// Rows that failed are done, and are still there to be counted.
	underway := min(p.Buffered, int64(p.Working)*storage.MaxBatchRows)
	return total{c.rows + c.at.Rows - p.Failed, c.rows + p.Rows + underway}
}

// CountBeside counts the rows of the phase while it is under way, if that turns out to pay,
// and takes the count for the phase's number of rows. It ignores a count that fails. The
// count ends soon after ctx. removes means that the phase removes rows from what is counted.
func (m *Meter) CountBeside(ctx context.Context, count func(context.Context) (int64, error), removes bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counting = &counting{ctx: ctx, count: count, removes: removes}
}

// consult starts the count when it is time to, and takes in what it found.
func (m *Meter) consult(p sweep.Progress) {
	c := m.counting
	switch {
	case c == nil || p.Stopping || p.Ended:
	case c.rows > 0:
		m.expected, m.counting = c.total(p), nil
	case !c.begun && m.style != None && worth(p):
		c.begun, c.at = true, p
		go func() { // ends with the count
			rows, err := c.count(c.ctx)
			if err != nil {
				return
			}
			m.mu.Lock()
			defer m.mu.Unlock()
			c.rows = rows
		}()
	}
}

// share adds the share done and the time left. It ignores a number of rows that has turned
// out wrong.
func (f *Figures) share(of total, p sweep.Progress, rates *rates) {
	if !of.known() || p.Rows > of.high {
		return
	}
	percent := math.Floor(float64(p.Rows)/float64(of.high)*1000) / 10 // nothing is done before it is
	f.Percent = &percent
	if rate, ok := rates.steady(); ok {
		left := math.Ceil(float64(of.high-p.Rows) / rate)
		f.Left = &left
	}
}
