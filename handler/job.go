package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"tablesweep/internal/action"
	"tablesweep/internal/file"
	"tablesweep/internal/key"
	"tablesweep/internal/storage"
	"tablesweep/internal/sweep"
	"tablesweep/internal/sweep/progress"
	"tablesweep/internal/sweep/rowlist"
)

const checkpointHelp = `With --checkpoint FILE the command can be interrupted at any time, by Ctrl-C, a crash
or a reboot. --resume FILE continues where it stopped, with the flags that FILE has. FILE holds no
secrets, and may come from somebody else. So it does not choose where rows and tokens go outside of your
default account: give connections, URLs, and files outside FILE's directory again.`

const jobHelp = `A failed row does not stop the others. It is listed on stderr, or in the file given by --failed,
with its keys and the reason. --rows takes such a file, of any size, and handles only
its rows, within --prefix, --after and --before. Without --filter, a listed row that the
table does not have fails.

` + checkpointHelp + ` --failed may name another file. The file of
--rows may have moved, but its content must be unchanged.`

// maxListed is how many failed rows are listed on stderr, without --failed.
const maxListed = 100

// progressFlag is the flag --progress.
type progressFlag struct{ style string }

func (p *progressFlag) add(c *cobra.Command, standard progress.Style) {
	c.Flags().StringVar(&p.style, "progress", string(standard), "plain: one live line on a terminal; json: a line every 5 s; auto: plain on a terminal, else json; none: nothing, and no count of the rows beside the work")
	_ = c.RegisterFlagCompletionFunc("progress", cobra.FixedCompletions([]string{"auto", "plain", "json", "none"}, cobra.ShellCompDirectiveNoFileComp))
}

func (p *progressFlag) meter(c *cobra.Command) (*progress.Meter, error) {
	if !slices.Contains(progress.Styles, progress.Style(p.style)) {
		return nil, usagef("--progress is %q, want one of %v", p.style, progress.Styles)
	}
	m := sharedBy(c).meter
	m.Use(progress.Style(p.style))
	return m, nil
}

// jobFlags are the flags of commands that do something with every row.
type jobFlags struct {
	progressFlag
	checkpointFlags
	jsonFlag
	dryRun       dryRun
	failed, rows string
}

func (j *jobFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&j.failed, "failed", "", "file for the rows that failed, a JSON object a line")
	flags.StringVar(&j.rows, "rows", "", "only the rows that this file lists, in the form of --failed and scan")
	j.jsonFlag.add(c, "print the result as JSON")
	j.progressFlag.add(c, progress.Auto)
	j.checkpointFlags.add(c)
	j.dryRun.add(c)
}

// job is a command that does something with every row, under way.
type job struct {
	flags   *jobFlags
	cmd     *cobra.Command
	meter   *progress.Meter
	options sweep.Options
	out     *rowlist.Writer // gets failed rows; nil if none was asked for
	began   time.Time
	ran     sweep.Totals // of this run alone
	rows    int64        // that the source has, if it says so; 0 if not
	lines   lineTotals

	failures failures // if out is nil
}

// start prepares the job, and then, by prepare, what its rows go to. places are those of
// [checkpointFlags.begin].
func (j *jobFlags) start(c *cobra.Command, o sweep.Options, prepare func(context.Context) error, places ...string) (*job, error) {
	limitMemory(c, j.resume)
	meter, err := j.meter(c)
	if err != nil {
		return nil, err
	}
	job := &job{flags: j, cmd: c, meter: meter, options: o, began: time.Now()}
	job.failures = failures{meter: meter, more: "further failed rows are counted, not listed; --failed FILE takes all of them"}
	job.options.Failed = job.rowsFailed
	job.options.Watch = func(p sweep.Progress) {
		job.ran = p.Run
		meter.Show(p)
	}
	if job.options.Checkpoint, err = j.beginSweep(c, places...); err != nil {
		return nil, err
	}
	if err := job.openFailed(); err != nil {
		return nil, err
	}
	if err := prepare(c.Context()); err != nil {
		return nil, errors.Join(err, job.closeFailed(j.resume == ""))
	}
	return job, nil
}

// openFailed opens the file for failed rows, and goes on with it after a resume. With a checkpoint,
// the rows reach the disk before the checkpoint counts them as done.
func (j *job) openFailed() (err error) {
	if j.flags.failed == "" {
		return nil
	}
	if j.flags.failed == j.flags.rows {
		return usagef("--failed and --rows name the same file; write the rows that fail again to another")
	}
	durable := j.options.Checkpoint != nil
	if j.flags.resume != "" {
		j.out, err = rowlist.Continue(j.cmd.Context(), j.flags.failed, durable)
	} else {
		j.out, err = rowlist.Create(j.cmd.Context(), j.flags.failed, durable)
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return hinted{usagef("--failed: %w", err), "--resume continues with it; remove it to start over, or name another file"}
	case errors.Is(err, rowlist.ErrNoList):
		return hinted{usagef("--failed: %w", err), "this program has not written its last line; name another file"}
	case err != nil:
		return unopened("--failed", err)
	}
	return nil
}

// closeFailed closes the file for failed rows. unused means that no later run goes on with it.
func (j *job) closeFailed(unused bool) error {
	if j.out == nil {
		return nil
	}
	return j.out.Close(unused)
}

// rowsFailed lists failed rows.
func (j *job) rowsFailed(rows []action.Failure) error {
	if j.out != nil {
		if err := j.out.Add(rows); err != nil {
			return fmt.Errorf("--failed: %w", err)
		}
		return nil
	}
	return j.failures.list(rows)
}

// failures lists failed rows on stderr.
type failures struct {
	meter  *progress.Meter
	more   string // said of those that are not listed
	listed int
}

func (l *failures) list(rows []action.Failure) error {
	for _, f := range rows {
		if l.listed++; l.listed > maxListed {
			return nil
		}
		l.meter.Say("failed", f.String())
		if l.listed == maxListed {
			l.meter.Say("warning", l.more)
		}
	}
	return nil
}

// list adds the keys of --rows that lie within its bounds to the sweep, and tries its source.
func (j *jobFlags) list(c *cobra.Command, s *sweep.Spec) (err error) {
	if s.Keys, err = j.keys(c, s.Bounds.Range()); err == nil {
		err = probe(c.Context(), *s)
	}
	return err
}

// keys reads the keys of --rows that lie within a range. nil means all rows.
func (j *jobFlags) keys(c *cobra.Command, in key.Range) (*sweep.Keys, error) {
	if j.rows == "" {
		return nil, nil
	}
	f, err := file.OpenPipe(c.Context(), j.rows, os.O_RDONLY, 0)
	if err != nil {
		err = unopened("--rows", err)
		if j.resume != "" && exitCode(err) == exitUsage {
			err = hinted{err, "if the file was moved, --rows may name it at its new place"}
		}
		return nil, err
	}
	defer f.Close()
	keys, digest, err := rowlist.Read(c.Context(), f, in)
	was := j.digest
	j.digest = digest
	var disk *fs.PathError
	switch {
	case errors.Is(err, sweep.ErrInterrupted):
		return nil, j.ended(c, err, nil)
	case errors.As(err, &disk): // such as one that is full
		return nil, j.ended(c, fmt.Errorf("--rows %s: %w", j.rows, err), nil)
	case err != nil:
		return nil, usagef("--rows %s: %w", j.rows, err)
	case was != "" && was != digest:
		return nil, errors.Join(usagef("--rows %s: the file has changed since the checkpoint was made", j.rows), keys.Close())
	}
	return keys, nil
}

// run does the action with the rows and ends the job. It returns the command's error.
// phase and verb describe the work, in present and past tense.
func (j *job) run(s sweep.Spec, a action.Work, phase, verb string) (sweep.Totals, error) {
	j.meter.Phase(phase)
	ctx, cancel := context.WithCancel(j.cmd.Context())
	_, removes := a.(action.Delete)
	err := j.expect(ctx, s, removes)
	var totals sweep.Totals
	if err == nil {
		totals, err = sweep.Do(j.cmd.Context(), s, j.options, a)
	}
	cancel()
	var doubts int64
	if _, ok := a.(action.Enqueue); ok { // all else may be repeated
		doubts = totals.Doubts
	}
	return totals, j.finish(totals, err, doubts, verb)
}

// finish ends the job after its rows, or an error. It returns the command's error.
func (j *job) finish(totals sweep.Totals, err error, doubts int64, verb string) error {
	j.meter.Clear()
	if closeErr := j.closeFailed(err != nil && j.flags.file == nil); err == nil {
		err = closeErr
	}
	err = j.flags.ended(j.cmd, err, func() error { return j.summary(totals, doubts, verb) })
	if err == nil && totals.Failed > 0 {
		err = hinted{failedRows(totals.Failed), j.failedHint()}
	}
	return err
}

// expect gives the meter the number of the job's rows: the length of the list, or the result
// of a count beside the job, unless it has a limit, which the count would break. removes is true if the job removes rows. The count ends with
// ctx.
func (j *job) expect(ctx context.Context, s sweep.Spec, removes bool) error {
	_, table := s.Source.(*storage.Table)
	switch {
	case !table && s.Keys == nil:
		if j.rows > 0 {
			j.meter.Expect(j.rows)
		}
	case j.flags.rows == "" && j.options.MaxRows == 0 && j.options.Requests == nil:
		j.meter.CountBeside(ctx, progress.CountOf(s, removes))
	case s.Keys != nil && s.Filter == "": // a filter hides which of the keys are done
		n, err := s.Keys.Len()
		if err != nil {
			return err
		}
		j.meter.Expect(n)
	}
	return nil
}

// lineTotals are totals of rows from a single file or a pipe alone.
type lineTotals struct {
	Unproven     bool  `json:"unproven,omitempty"`     // always true: nothing shows that these are all rows
	Repeated     int64 `json:"repeated,omitempty"`     // rows with the key of an earlier one
	MoreRepeated bool  `json:"moreRepeated,omitempty"` // rows too far apart were not compared
}

// String returns the totals for people.
func (t lineTotals) String() string {
	switch {
	case t.Repeated == 0:
		return ""
	case t.MoreRepeated:
		return fmt.Sprintf(", at least %d repeated", t.Repeated)
	}
	return fmt.Sprintf(", %d repeated", t.Repeated)
}

// jobResult has a job's totals.
type jobResult struct {
	Rows       int64   `json:"rows"`
	Written    int64   `json:"written"`
	Skipped    int64   `json:"skipped"`
	Failed     int64   `json:"failed"`
	Queries    int64   `json:"queries"`
	Requests   int64   `json:"requests"`
	Throttles  int64   `json:"throttles"`
	Seconds    float64 `json:"seconds"`       // of this run
	RowsPerSec float64 `json:"rowsPerSecond"` // of this run
	Doubts     int64   `json:"possibleDuplicates,omitempty"`
	lineTotals
}

// summary prints a job's totals.
func (j *job) summary(t sweep.Totals, doubts int64, verb string) error {
	took := time.Since(j.began).Round(time.Millisecond).Seconds()
	r := jobResult{t.Rows, t.Written, t.Rows - t.Written - t.Failed, t.Failed, t.Queries, t.Requests, t.Throttles, took, math.Round(float64(j.ran.Rows) / max(took, 0.001)), doubts, j.lines}
	r.Rows += j.lines.Repeated
	text := fmt.Sprintf("%s %d of %d rows", verb, r.Written, r.Rows)
	switch {
	case j.flags.resume != "" && j.ran == (sweep.Totals{}):
		text += " before; nothing was left to do"
	case j.flags.resume != "":
		text += fmt.Sprintf(", %d of them now in %.1f s: %.0f rows/s", j.ran.Rows, r.Seconds, r.RowsPerSec)
	default:
		text += fmt.Sprintf(" in %.1f s: %.0f rows/s", r.Seconds, r.RowsPerSec)
	}
	text += fmt.Sprintf(", %d requests, %d throttled, %d skipped, %d failed", r.Requests, r.Throttles, r.Skipped, r.Failed)
	if doubts > 0 {
		text += fmt.Sprintf(", up to %d put twice", doubts)
	}
	if text += j.lines.String(); j.lines.Unproven {
		text += unproven
	}
	return j.flags.print(j.cmd, r, "%s\n", text)
}

func (j *job) failedHint() string {
	if j.out == nil {
		return "run it again with --failed FILE to get all of them in a form that --rows takes"
	}
	return fmt.Sprintf("%s lists them; when the cause is removed, --rows %s retries only those", j.flags.failed, j.flags.failed)
}
