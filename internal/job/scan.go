package job

import (
	"context"
	"errors"

	"tablesweep/internal/job/sweep"
	"tablesweep/internal/split/strategy"
	"tablesweep/internal/storage"
)

// ScanOptions are the options of a scan.
type ScanOptions struct {
	Options
	Strategy string            // one of [strategy.Names]
	PageRows int               // rows per query
	Limit    int               // at most this many rows, the first ones in table order; 0 for all
	Trace    func(sweep.Trace) // called with each query; may be nil
	quiet    bool              // this scan does not report the failed rows, because another scan of the same rows reports them
}

// errEnough ends a scan that has read as many rows as requested.
var errEnough = errors.New("enough rows")

// Scan calls fn with the rows of a place, in order. If fn is nil, Scan only counts the rows.
func Scan(ctx context.Context, o ScanOptions, fn func([]storage.Row) error) (sweep.Totals, error) {
	s, err := o.specOf(o.From)
	if err != nil {
		return sweep.Totals{}, err
	}
	if o.PageRows < 1 || o.PageRows > storage.PageRows {
		return sweep.Totals{}, Refuse("segment-size", " is %d; it must be 1 to %d", o.PageRows, storage.PageRows)
	}
	s.PageRows = o.PageRows
	if o.Strategy != strategy.Adaptive {
		s.Steal, s.Strategy = false, strategy.New(o.Strategy, strategy.Options{})
	}
	options := o.sweepOptions(o.Rows)
	options.Trace = o.Trace
	if o.Limit == 0 && fn == nil {
		return sweep.Count(ctx, s, options, nil)
	}
	if o.Limit > 0 {
		s.PageRows = min(s.PageRows, o.Limit)
	}
	done, failed := 0, int64(0)
	report := reporter(o.Meter, "further failed rows are counted but not listed")
	totals, err := sweep.Each(ctx, s, options, func(rows []storage.Row) error {
		if o.Limit > 0 {
			rows = rows[:min(len(rows), o.Limit-done)]
		}
		done += len(rows)
		rows, lost, err := o.mapRows(ctx, rows)
		failed += int64(len(lost))
		if err == nil && !o.quiet {
			err = report(lost)
		}
		if err == nil && fn != nil {
			err = fn(rows)
		}
		if err != nil {
			return err
		}
		if o.Limit > 0 && done == o.Limit {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		totals.Rows, err = int64(done), nil
	}
	totals.Failed += failed
	if !o.quiet {
		o.printChanges()
	}
	return totals, err
}
