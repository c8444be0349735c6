package job

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"tablesweep/internal/action"
	"tablesweep/internal/job/sweep"
	"tablesweep/internal/job/verify"
	"tablesweep/internal/place"
	"tablesweep/internal/record/rowmap"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// CopyOptions are the options of a copy.
type CopyOptions struct {
	PairOptions
	Since
	Mode      action.Mode    // for a copy to a table
	Compress  place.Compress // for an export
	Timestamp bool           // files also contain each row's Timestamp
	DryRun    bool           // for a dry run, which prepares the job but does not run it
	Member    bool           // the job is for one of many tables
}

// Copy prepares a copy between places. If the source is an export, it must be open.
func Copy(ctx context.Context, o CopyOptions) (j *Job, err error) {
	s, err := o.specOf(o.From)
	if err != nil {
		return nil, err
	}
	changes, window, err := o.narrow(ctx, &s)
	if err != nil {
		return nil, err
	}
	switch {
	case o.To.Table() == nil:
		s.Source = o.mappedSource(s.Source, false)
		j, err = o.toFiles(ctx, s, changes)
	case s.Source == nil:
		j, err = o.fromLines(ctx, s)
	default:
		j, err = o.toTable(ctx, s)
	}
	if err != nil {
		return nil, changes.endCopy(err, 0)
	}
	j.changes, j.Window = changes, window
	return j, nil
}

func (o CopyOptions) toTable(ctx context.Context, s sweep.Spec) (*Job, error) {
	to := o.To.Table()
	phase := "copying"
	if o.From.Table() == nil {
		phase = "importing"
	}
	w := work{
		action: action.Copy{Destination: to, Mode: o.Mode}, phase: phase, places: []string{s.Source.Address(), to.Address()}, prepare: to.Create,
		intent: intent{"copy", action.Transactions, func(ctx context.Context) (string, bool, error) {
			exists, err := to.MayWrite(ctx)
			if err != nil {
				return "", false, fmt.Errorf("check the destination: %w", err)
			}
			return leadsTo(to.String(), "rows", !exists), !exists, nil
		}},
	}
	if o.Map != nil && !o.Resumed && o.List == "" {
		w.try = func(rows []storage.Row) error {
			_, err := o.tryMap(ctx, rows)
			return err
		}
	}
	if o.From.Export() != nil && o.selectsAll() {
		w.known = o.From.Export().Manifest().Rows
	}
	return prepare(ctx, o.Options, s, w)
}

// Verify checks after a copy that the source and the destination have equal rows. The copy's mode defines when two rows count as equal
// ([verify.DepthOf]). Rows that only the destination has are ignored.
func (o CopyOptions) Verify(ctx context.Context, j *Job) (verify.Result, error) {
	rows := j.rows
	if err := o.To.Read(ctx, "to"); err != nil {
		return verify.Result{}, err
	}
	compare := verify.Options{Options: o.comparison(), Depth: verify.DepthOf(o.Mode), AllowExtra: true, Only: j.changes.filter()}
	if e := o.To.Export(); e != nil {
		rows = e.Manifest().Rows
	}
	s := j.spec
	if _, kept := s.Source.(rowmap.Kept); !kept {
		s.Source = o.mappedSource(s.Source, true)
	}
	if s.Filter = o.Filter; storage.ComparesTime(s.Filter) || o.Map != nil { // filter only the source: the destination has its own Timestamps, and a map may have changed the values
		compare.Only, s.Filter = storage.CombineFilters(compare.Only, s.Filter), ""
	}
	o.Meter.Phase("verifying")
	o.Meter.Expect(rows) // an estimate, because rows may have been added after the copy
	r, err := verify.Compare(ctx, s, o.To.Source, compare)
	o.Meter.End()
	return r, refuseMoved("verify", err)
}

// ImportAgain is the advice after an interrupted import whose rows may be in any order.
const ImportAgain = "import all of it again; rows that the table has with the same content count as written"

// fromLines prepares a copy of rows in any order to a table.
func (o CopyOptions) fromLines(ctx context.Context, s sweep.Spec) (*Job, error) {
	j := &Job{options: o.Options, spec: s}
	if o.From.Kind == place.KindFile {
		in, err := o.openLines(ctx)
		if err != nil {
			return nil, err
		}
		j.in = in
	}
	j.run = func(ctx context.Context, record Record, began time.Time) (Result, error) {
		var lines Lines
		var now sweep.Totals
		r, err := j.runWork(ctx, record, began, nil, func(opts sweep.Options) (all sweep.Totals, err error) {
			if j.in == nil { // stdin is opened only here, because reading it may make the job wait
				j.in, _ = o.openLines(ctx)
			}
			lines.Unproven = true
			next, err := o.readLines(ctx, j.in)
			o.Meter.Phase("importing")
			opts.Watch = func(p sweep.Progress) {
				now = all
				now.Add(p.Totals)
				p.Totals, p.Run, p.Ended = now, now, false
				o.Meter.Show(p)
			}
			windows := 0
			bad := func(line *place.BadLine) error {
				all.Add(sweep.Totals{Rows: 1, Failed: 1})
				return opts.Failed([]action.Failure{{Key: line.Key, Reason: line.Error(), Line: line.Line}})
			}
			if err == nil {
				err = place.Windows(next, o.Mode == action.Merge, bad, func(rows place.Rows, repeated int) error {
					if windows++; windows == 1 {
						if err := o.tryLines(ctx, rows); err != nil {
							return err
						}
						if err := o.To.Table().Create(ctx); err != nil {
							return err
						}
					}
					lines.Repeated += int64(repeated)
					lines.MoreRepeated = windows > 1
					s.Source = rows
					t, err := sweep.Do(ctx, s, opts, o.mapWork(action.Copy{Destination: o.To.Table(), Mode: o.Mode}))
					all.Add(t)
					return err
				})
			}
			if err == nil && windows == 0 && all.Rows == 0 { // the source is an empty table
				err = o.To.Table().Create(ctx)
			}
			if ctx.Err() != nil && (err == nil || errors.Is(err, os.ErrDeadlineExceeded)) { // err may be nil, because the interrupt may also have ended the program that writes to stdin
				err = task.ErrInterrupted
			}
			if err != nil && !errors.Is(err, task.ErrInterrupted) && !errors.As(err, new(*fs.PathError)) {
				err = fmt.Errorf("%s: %w", o.From.Path, err)
			}
			return all, err
		})
		if err = notLines(err); errors.Is(err, task.ErrInterrupted) || errors.Is(err, storage.ErrAway) {
			err = Hint(err, ImportAgain)
		}
		r.Lines, r.Now = lines, now
		return r, err
	}
	return j, nil
}

// tryLines fails if the map fails for all of the first rows.
func (o CopyOptions) tryLines(ctx context.Context, rows place.Rows) error {
	if o.Map == nil {
		return nil
	}
	p, _, err := rows.Read(ctx, storage.RequestOptions{}, storage.Query{Range: o.Bounds.Range(), Filter: o.Filter, Top: storage.PageRows})
	if err == nil {
		_, err = o.tryMap(ctx, p.Rows)
	}
	return err
}

// notLines adds a hint to an error about input that is not JSON lines.
func notLines(err error) error {
	switch {
	case errors.Is(err, place.ErrArray):
		return Hint(err, "jq -c '.[]' writes each row of an array as a line")
	case errors.Is(err, place.ErrSpread):
		return Hint(err, "each row must be a single line; \"jq -c .\" writes each object on one line")
	case errors.Is(err, place.ErrNoObject):
		return Hint(err, "to read CSV, use --format csv for stdin, or a file whose name ends with .csv")
	}
	return err
}

// interruptible returns a reader of the given input. The reader ends when ctx ends, even if no input arrives.
func interruptible(ctx context.Context, in io.Reader) io.ReadCloser {
	out, to := io.Pipe()
	go func() { // ends when the input or the process ends
		_, err := io.Copy(to, in)
		to.CloseWithError(err)
	}()
	context.AfterFunc(ctx, func() { to.CloseWithError(task.ErrInterrupted) })
	return out
}
