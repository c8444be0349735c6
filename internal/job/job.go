package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"tablesweep/internal/action"
	"tablesweep/internal/file"
	"tablesweep/internal/file/journal"
	"tablesweep/internal/job/estimate"
	"tablesweep/internal/job/progress"
	"tablesweep/internal/job/rowlist"
	"tablesweep/internal/job/sweep"
	"tablesweep/internal/job/verify"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// Job is a job that is ready to run once. Call Close even if the job does not run.
type Job struct {
	Facts
	options Options
	spec    sweep.Spec
	run     func(ctx context.Context, r Record, began time.Time) (Result, error)
	intent  intent
	changes *changes      // nil unless only changed rows are copied
	in      io.ReadCloser // an open input with rows in any order
	rows    int64         // the number of rows copied to a table
}

// Record contains a job's journal, and the command that an export stores as its request.
type Record struct {
	Journal *journal.File   // nil if the job cannot be resumed
	Request json.RawMessage // the command; nil if the job is resumed
}

// Result is the result of a job.
type Result struct {
	sweep.Totals               // the totals of all runs
	Now          sweep.Totals  // the totals of this run
	Took         time.Duration // the duration of this run
	Doubts       int64         // rows whose message may have been enqueued twice
	Lines        Lines
	Export       Exported
	Comparison   verify.Result
	// Begun is true if the job began, unless the job's error already says how to continue.
	Begun bool
}

// Lines contains the totals that only an import of rows from a single file or a pipe has.
type Lines struct {
	Unproven     bool  `json:"unproven,omitempty"`     // always true, because the import cannot prove that no row is missing
	Repeated     int64 `json:"repeated,omitempty"`     // rows with the key of an earlier row
	MoreRepeated bool  `json:"moreRepeated,omitempty"` // Repeated may be too low, because only rows near each other were compared
}

// Run runs the job. If it returns [task.ErrInterrupted], the rest of the job can be resumed from the journal.
func (j *Job) Run(ctx context.Context, r Record) (Result, error) { return j.run(ctx, r, time.Now()) }

// Close closes the job's files. The argument err is the error of the command that ran the job. If err is nil, Close records the success in the file
// [Since.State], if any, except in a dry run. If err is not nil, Close returns err.
func (j *Job) Close(err error) error {
	if j.in != nil {
		_ = j.in.Close()
	}
	return j.changes.endCopy(err, j.rows)
}

type intent struct {
	verb   string
	writes func([]storage.Row) int // estimates how many requests write these rows
	// check checks the permissions. It returns a sentence about the destination, and whether the destination is missing and would be created.
	check func(context.Context) (sentence string, missing bool, err error)
}

// Estimate is an estimate of a job.
type Estimate struct {
	estimate.Report
	Verb     string // what the job does, such as copy
	Sentence string // describes the destination
}

// Estimate checks the job's permissions, and counts the job's rows. The count ends after the duration `limit`, or after the last row if `limit` is 0.
// Estimate reads only keys, and changes nothing. The argument `price` is the price of 10,000 requests, in dollars.
func (j *Job) Estimate(ctx context.Context, limit time.Duration, price float64) (e Estimate, err error) {
	sentence, missing, err := j.intent.check(ctx)
	if err != nil {
		return e, err
	}
	j.options.Meter.Phase("counting")
	r, err := estimate.Count(ctx, j.spec, j.options.sweepOptions(j.options.Rows), limit, estimate.Work{Writes: j.intent.writes, Price: price})
	j.options.Meter.End()
	r.Creates = missing
	return Estimate{r, j.intent.verb, sentence}, err
}

// leadsTo returns a sentence that says whether a destination exists.
func leadsTo(destination, takes string, missing bool) string {
	if missing {
		return fmt.Sprintf("the destination %s does not exist and would be created", destination)
	}
	return fmt.Sprintf("the destination %s exists and takes %s", destination, takes)
}

// prepare prepares a job that does the work w with each row of a sweep.
func prepare(ctx context.Context, o Options, s sweep.Spec, w work) (*Job, error) {
	j := &Job{options: o, spec: s, intent: w.intent}
	err := j.readList(ctx)
	if err == nil && w.try == nil {
		_, err = tryRow(ctx, s)
	} else if err == nil {
		var p storage.Page
		if p, err = firstPage(ctx, s, s.PageRows); err == nil {
			err = w.try(p.Rows)
		}
	}
	if err != nil {
		return nil, err
	}
	j.Places = w.places
	j.run = j.runner(w)
	if o.Map != nil { // the transactions of mapped rows cannot be foreseen, so the estimate assumes one request per row
		j.intent.writes = func(rows []storage.Row) int { return len(rows) }
	}
	return j, nil
}

func (j *Job) runner(w work) func(context.Context, Record, time.Time) (Result, error) {
	return func(ctx context.Context, r Record, began time.Time) (Result, error) {
		done, err := j.runWork(ctx, r, began, w.prepare, func(o sweep.Options) (sweep.Totals, error) {
			j.options.Meter.Phase(w.phase)
			counting, cancel := context.WithCancel(ctx)
			defer cancel()
			_, removes := w.action.(action.Delete)
			if err := j.expectRows(counting, w.known, removes); err != nil {
				return sweep.Totals{}, err
			}
			return sweep.Do(ctx, j.spec, o, j.options.mapWork(w.action))
		})
		if _, ok := w.action.(action.Enqueue); ok { // with any other action, it does no harm to process a row twice
			done.Doubts = done.Totals.Doubts
		}
		return done, err
	}
}

// work is the work that a job does with each row.
type work struct {
	intent
	action  action.Work
	phase   string
	places  []string
	prepare func(context.Context) error // creates the destination; nil if there is nothing to create
	known   int64                       // the number of rows that the source reports; 0 if unknown
	try     func([]storage.Row) error   // checks the rows of the first page, and its error ends the job; nil for no check
}

// readList reads the job's list of rows, if any. It keeps only the keys within the sweep's bounds.
func (j *Job) readList(ctx context.Context) error {
	o := j.options
	if o.List == "" {
		return nil
	}
	f, err := file.OpenPipe(ctx, o.List, os.O_RDONLY, 0)
	if err != nil {
		if err = Unopened("rows", err); o.Resumed && Refused(err) {
			err = Hint(err, "if the file was moved, give its new path with --rows")
		}
		return err
	}
	defer f.Close()
	j.spec.Keys, j.Digest, err = rowlist.Read(ctx, f, j.spec.Bounds.Range())
	var read *fs.PathError
	switch {
	case errors.Is(err, task.ErrInterrupted):
		return err
	case errors.As(err, &read): // reading the file failed or was interrupted; no [Refusal], because the option may be valid
		return fmt.Errorf("--rows %s: %w", o.List, err)
	case err != nil:
		return Refuse("rows", " %s: %w", o.List, err)
	case o.Was.Digest != "" && o.Was.Digest != j.Digest:
		return Refuse("rows", " %s: the file has changed since the checkpoint was made", o.List)
	}
	return nil
}

// runWork calls the function `do` to process all rows, and stores or prints the failed rows.
func (j *Job) runWork(ctx context.Context, record Record, began time.Time, prepare func(context.Context) error, do func(sweep.Options) (sweep.Totals, error)) (r Result, err error) {
	o := j.options.sweepOptions(j.options.Rows)
	o.Watch = func(p sweep.Progress) {
		r.Now = p.Run
		j.options.Meter.Show(p)
	}
	if record.Journal != nil {
		if o.Checkpoint, err = sweep.NewCheckpoint(record.Journal); err != nil {
			return r, BadCheckpoint(err)
		}
	}
	list, err := j.openFailed(ctx, record.Journal != nil)
	if err != nil {
		return r, err
	}
	o.Failed = reporter(j.options.Meter, "further failed rows are counted but not listed; --failed FILE lists all of them")
	if list != nil {
		o.Failed = func(rows []action.Failure) error {
			if err := list.Add(rows); err != nil {
				return fmt.Errorf("--failed: %w", err)
			}
			return nil
		}
	}
	if prepare != nil {
		err = prepare(ctx)
	}
	if r.Begun = err == nil; r.Begun {
		r.Totals, err = do(o)
		j.options.Meter.Clear()
	}
	if list != nil {
		unused := err != nil && record.Journal == nil
		if !r.Begun {
			unused = !j.options.Resumed
		}
		if closeErr := list.Close(unused); err == nil {
			err = closeErr
		}
	}
	r.Took, j.rows = time.Since(began), r.Rows
	j.options.printChanges()
	return r, err
}

// openFailed opens the file for failed rows, or returns nil if the job stores none. A resumed job continues the file of its earlier runs.
func (j *Job) openFailed(ctx context.Context, durable bool) (list *rowlist.Writer, err error) {
	path := j.options.Failed
	switch {
	case path == "":
		return nil, nil
	case path == j.options.List:
		return nil, Refuse("", "--failed and --rows name the same file; give --failed another file, to which the command can write the rows that fail again")
	case j.options.Resumed:
		list, err = rowlist.Continue(ctx, path, durable)
	default:
		list, err = rowlist.Create(ctx, path, durable)
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, Hint(Refuse("failed", ": %w", err), "to continue the earlier command, use --resume; to start over, remove the file or name another file")
	case errors.Is(err, rowlist.ErrNoList):
		return nil, Hint(Refuse("failed", ": %w", err), "the file's last line was not written by this program; name another file")
	case err != nil:
		return nil, Unopened("failed", err)
	}
	return list, nil
}

const maxListed = 100

// reporter returns a function that prints failed rows on the meter. The function prints at most maxListed rows. After the last
// of these rows, it prints the argument `more` as a warning.
func reporter(m *progress.Meter, more string) func([]action.Failure) error {
	listed := 0
	return func(rows []action.Failure) error {
		for _, f := range rows {
			if listed++; listed > maxListed {
				return nil
			}
			m.Print("failed", f.String())
			if listed == maxListed {
				m.Print("warning", more)
			}
		}
		return nil
	}
}

// expectRows tells the meter how many rows the job has. If the source is not a table, the number is `known`, which is 0 if the source reports no
// number. If the job has a list of rows, the number is the list's length. But if the job also has a filter, expectRows tells the meter no number. If the
// source is a table and the job has no list, a count runs beside the job until ctx ends. But if the job has a limit on requests or rows per second, no
// count runs, because the count would not obey this limit.
func (j *Job) expectRows(ctx context.Context, known int64, removes bool) error {
	o := j.options
	switch {
	case o.From.Table() == nil && j.spec.Keys == nil:
		if known > 0 {
			o.Meter.Expect(known)
		}
	case j.spec.Keys == nil && o.MaxRows == 0 && o.sweepOptions(o.Rows).Requests == nil:
		o.Meter.CountBeside(ctx, progress.RowsOf(j.spec, o.Memory), removes)
	case j.spec.Keys != nil && j.spec.Filter == "": // with a filter, the sweep may count fewer rows than the list has
		o.Meter.Expect(j.spec.Keys.Len())
	}
	return nil
}
