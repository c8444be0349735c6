package progress

import (
	"context"
	"math"
	"time"

	"tablesweep/internal/job/sweep"
	"tablesweep/internal/storage"
	"tablesweep/internal/task/memory"
)

// total is the lowest and highest possible number of rows of a phase. Zero means unknown.
type total struct{ low, high int64 }

// known reports whether the total is exact enough to show a share of it.
func (t total) known() bool {
	const sharp = 0.05
	return t.high > 0 && float64(t.high-t.low) <= sharp*float64(t.high)
}

// besideWorkers is how many requests a count alongside the work makes at once.
const besideWorkers = 32

// RowsOf returns a function that counts the rows of a sweep. It reads only keys, with memory that is free.
func RowsOf(s sweep.Spec, free *memory.Budget) func(context.Context) (int64, error) {
	return func(ctx context.Context) (int64, error) {
		o := sweep.Options{Workers: besideWorkers, Memory: free, Abort: ctx.Done()}
		t, err := sweep.Count(ctx, s, o, nil)
		return t.Rows, err
	}
}

// counting is a count of the rows of a phase, at the same time as the phase.
type counting struct {
	ctx     context.Context
	count   func(context.Context) (int64, error) // returns how many rows the source has now
	removes bool                                 // the phase removes rows, so the count misses rows that were removed first
	begun   bool
	at      sweep.Progress // when the count began
	rows    int64          // the result; 0 while the count is running
}

// worth reports whether a count is worthwhile. It is worthwhile if the phase has taken a while and makes so many requests that
// those of the count hardly matter.
func worth(p sweep.Progress) bool {
	const long, requests = 10 * time.Second, 4 // for each query
	return p.Elapsed >= long && p.Run.Queries > 0 && p.Run.Requests >= requests*p.Run.Queries
}

// total returns the number of the phase's rows according to the count.
func (c *counting) total(p sweep.Progress) total {
	switch {
	case c.rows == 0:
		return total{}
	case !c.removes:
		return total{c.rows, c.rows}
	}
	// Failed rows are done, but still in the table, so the count includes them.
	underway := min(p.Buffered, int64(p.Working)*storage.MaxBatchRows)
	return total{c.rows + c.at.Rows - p.Failed, c.rows + p.Rows + underway}
}

// CountBeside counts the rows of the phase while the phase is running, if a count is worthwhile. The result becomes the phase's
// number of rows. A count that fails is ignored. The count ends soon after ctx ends. removes is set if the phase removes rows
// that are counted.
func (m *Meter) CountBeside(ctx context.Context, count func(context.Context) (int64, error), removes bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counting = &counting{ctx: ctx, count: count, removes: removes}
}

// consult starts the count when it is time to, and takes its result once it has ended.
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
// out to be wrong.
func (f *Figures) share(of total, p sweep.Progress, rates *rates) {
	if !of.known() || p.Rows > of.high {
		return
	}
	percent := math.Floor(float64(p.Rows)/float64(of.high)*1000) / 10 // rounded down, so that 100 % means done
	f.Percent = &percent
	if rate, ok := rates.steady(); ok {
		left := math.Ceil(float64(of.high-p.Rows) / rate)
		f.Left = &left
	}
}
