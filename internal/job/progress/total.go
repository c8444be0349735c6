package progress

import (
	"context"
	"math"
	"time"

	"tablesweep/internal/job/sweep"
	"tablesweep/internal/storage"
	"tablesweep/internal/task/memory"
)

// total contains the lowest and the highest possible number of rows of a phase. If high is 0, the number of rows is unknown.
type total struct{ low, high int64 }

// isExact reports whether the total is exact enough to show the share that is done.
func (t total) isExact() bool {
	const sharp = 0.05
	return t.high > 0 && float64(t.high-t.low) <= sharp*float64(t.high)
}

// besideWorkers is the maximum number of concurrent requests of a count alongside the work.
const besideWorkers = 32

// RowsOf returns a function that counts the rows of a sweep. The count reads only keys, and uses only free memory of the budget.
func RowsOf(s sweep.Spec, free *memory.Budget) func(context.Context) (int64, error) {
	return func(ctx context.Context) (int64, error) {
		o := sweep.Options{Workers: besideWorkers, Memory: free, Abort: ctx.Done()}
		t, err := sweep.Count(ctx, s, o, nil)
		return t.Rows, err
	}
}

// counting is the state of a count. The count determines the number of rows of a phase, while the phase is running.
type counting struct {
	ctx     context.Context
	count   func(context.Context) (int64, error) // returns how many rows the source has now
	removes bool                                 // the phase removes rows, so the count misses the rows that are already removed
	begun   bool
	at      sweep.Progress // the progress when the count began
	rows    int64          // the result; 0 while the count is running
}

// worthwhile reports whether a count would add little to the phase's cost.
func worthwhile(p sweep.Progress) bool {
	const long, requests = 10 * time.Second, 4 // a phase is counted only after 10 s, and only if at most a quarter of its requests are queries
	return p.Elapsed >= long && p.Run.Queries > 0 && p.Run.Requests >= requests*p.Run.Queries
}

func (c *counting) total(p sweep.Progress) total {
	switch {
	case c.rows == 0:
		return total{}
	case !c.removes:
		return total{c.rows, c.rows}
	}
	// Failed rows are done, but they remain in the table. So c.rows and c.at.Rows may both include them.
	underway := min(p.Buffered, int64(p.Working)*storage.MaxBatchRows)
	return total{c.rows + c.at.Rows - p.Failed, c.rows + p.Rows + underway}
}

// CountBeside counts the rows of the phase while the phase is running, if a count is worthwhile. The result becomes the phase's number of rows.
// Errors of the count are ignored. The count ends soon after ctx ends.
func (m *Meter) CountBeside(ctx context.Context, count func(context.Context) (int64, error), removes bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counting = &counting{ctx: ctx, count: count, removes: removes}
}

// consult starts the count as soon as a count is worthwhile. When the count has ended, consult uses its result.
func (m *Meter) consult(p sweep.Progress) {
	c := m.counting
	switch {
	case c == nil || p.Stopping || p.Ended:
	case c.rows > 0:
		m.expected, m.counting = c.total(p), nil
	case !c.begun && m.style != None && worthwhile(p):
		c.begun, c.at = true, p
		go func() { // ends when the count ends
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

// addShare adds two figures: the share that is done, and the time left. It adds neither if the phase has already done more rows than the total.
func (f *Figures) addShare(of total, p sweep.Progress, rates *rates) {
	if !of.isExact() || p.Rows > of.high {
		return
	}
	percent := math.Floor(float64(p.Rows)/float64(of.high)*1000) / 10 // rounded down, so that 100 % means done
	f.Percent = &percent
	if rate, ok := rates.steadyRate(); ok {
		left := math.Ceil(float64(of.high-p.Rows) / rate)
		f.Left = &left
	}
}
