package main

import (
	"context"

	"tablesweep/internal/sweep"
	"tablesweep/internal/sweep/progress"
)

// What a count beside a job may take of the machine and the account.
const (
	besideWorkers = 32
	besideBuffer  = 8 << 20 // bytes
)

// expect gives the meter the number of the job's rows: the length of the list, or the result
// of a count beside the job. removes is true if the job removes rows. The count ends with
// ctx.
func (j *job) expect(ctx context.Context, s sweep.Spec, removes bool) error {
	switch {
	case j.flags.rows == "":
		s.Select, s.Raw = []string{}, false // keys alone
		o := sweep.Options{Workers: besideWorkers, Buffer: besideBuffer, Abort: ctx.Done()}
		j.meter.CountBeside(ctx, progress.Count{Removes: removes, Rows: func(ctx context.Context) (int64, error) {
			t, err := sweep.Count(ctx, s, o)
			return t.Rows, err
		}})
	case s.Keys != nil && s.Filter == "": // a filter hides which of the keys are done
		n, err := s.Keys.Len()
		if err != nil {
			return err
		}
		j.meter.Expect(n)
	}
	return nil
}
