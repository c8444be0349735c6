package job

import (
	"context"
	"fmt"
	"time"

	"tablesweep/internal/job/sweep"
	"tablesweep/internal/job/verify"
	"tablesweep/internal/problem"
)

// exportWorkers is the default number of workers that compare an export. It is small, because each worker holds a page of the export in memory, and
// more workers read the same pages more often.
const exportWorkers = 8

// PairOptions are the options of jobs that compare two places.
type PairOptions struct {
	Options
	To         Place
	AllWorkers bool // all workers are used, even to compare an export
}

func (o PairOptions) comparison() sweep.Options {
	c := o.sweepOptions(o.Rows)
	if (o.From.Export() != nil || o.To.Export() != nil) && !o.AllWorkers {
		c.Workers = min(c.Workers, exportWorkers)
	}
	c.Failed = reporter(o.Meter, "further failed rows are counted but not listed")
	return c
}

// VerifyOptions are the options of a comparison.
type VerifyOptions struct {
	PairOptions
	List       int // the maximum number of listed differences
	AllowExtra bool
}

// Verify prepares a comparison of two places. Exports must be open.
func Verify(ctx context.Context, o VerifyOptions) (*Job, error) {
	s, err := o.specOf(o.From)
	if err == nil && o.To.Export() != nil {
		_, err = Rows{Workers: 1}.specOf(o.To)
	}
	if err != nil {
		return nil, err
	}
	if o.From.Table() != nil || o.To.Table() != nil { // lets workers read many ranges of the table at the same time
		s.Steal = true
	}
	if _, err := tryRow(ctx, s); err != nil {
		return nil, err
	}
	j := &Job{options: o.Options, spec: s}
	j.Places = []string{o.From.Address(), o.To.Address()}
	j.run = func(ctx context.Context, record Record, _ time.Time) (r Result, err error) {
		c := verify.Options{Options: o.comparison(), AllowExtra: o.AllowExtra}
		c.List = o.List
		if record.Journal != nil {
			if c.Checkpoint, err = sweep.NewCheckpoint(record.Journal); err != nil {
				return r, BadCheckpoint(err)
			}
		}
		o.Meter.Phase("verifying")
		r.Begun = true
		r.Comparison, err = verify.Compare(ctx, s, o.To.Source, c)
		o.Meter.End()
		return r, err
	}
	return j, nil
}

// Compared describes the result of a comparison.
func Compared(r verify.Result) string {
	return fmt.Sprintf("%s (%s): %d missing, %d extra, %d different", problem.Plural(r.Rows, "row"), problem.Plural(r.Queries, "query"), r.Missing, r.Extra, r.Different)
}
