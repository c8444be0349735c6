package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"tablesweep/internal/action"
	"tablesweep/internal/input"
	"tablesweep/internal/key"
	"tablesweep/internal/lines"
	"tablesweep/internal/sweep"
	"tablesweep/internal/sweep/progress"
)

const checkpointHelp = `With --checkpoint FILE the command can be interrupted at any time, by Ctrl-C, a crash
or a reboot. --resume FILE continues where it stopped, and needs no other flags, with one
exception: a connection that was not the name of a variable must be given again, because the
file holds no secrets.`

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
	failed, rows string
	json         bool
}

func (j *jobFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&j.failed, "failed", "", "file for the rows that failed, a JSON object a line")
	flags.StringVar(&j.rows, "rows", "", "only the rows that this file lists, in the form of --failed and scan")
	flags.BoolVar(&j.json, "json", false, "print the result as JSON")
	j.progressFlag.add(c, progress.Auto)
	j.checkpointFlags.add(c)
}

// job is a command that does something with every row, under way.
type job struct {
	flags   *jobFlags
	cmd     *cobra.Command
	meter   *progress.Meter
	options sweep.Options
	out     *os.File // gets failed rows; nil if none was asked for
	began   time.Time
	ran     sweep.Totals // of this run alone

	failures failures // if out is nil
}

// start prepares the job. places are those of [checkpointFlags.begin].
func (j *jobFlags) start(c *cobra.Command, workers int, places ...string) (*job, error) {
	limitMemory(j.resume)
	meter, err := j.meter(c)
	if err != nil {
		return nil, err
	}
	job := &job{flags: j, cmd: c, meter: meter, began: time.Now()}
	job.failures = failures{meter: meter, more: "further failed rows are counted, not listed; --failed FILE takes all of them"}
	job.options = sweepOptions(c, workers)
	job.options.Failed = job.rowsFailed
	job.options.Watch = func(p sweep.Progress) {
		job.ran = p.Run
		meter.Show(p)
	}
	if job.options.Checkpoint, err = j.begin(c, places...); err != nil {
		return nil, err
	}
	return job, job.openFailed()
}

// openFailed opens the file for failed rows, and goes on with it after a resume.
func (j *job) openFailed() error {
	if j.flags.failed == "" {
		return nil
	}
	if j.flags.failed == j.flags.rows {
		return usagef("--failed and --rows name the same file; write the rows that fail again to another")
	}
	resumed := j.flags.resume != ""
	info, err := os.Stat(j.flags.failed)
	regular := err != nil || info.Mode().IsRegular()
	mode := os.O_CREATE | os.O_WRONLY
	switch {
	case resumed:
		mode = os.O_CREATE | os.O_RDWR | os.O_APPEND
	case regular:
		mode |= os.O_EXCL
	}
	j.out, err = os.OpenFile(j.flags.failed, mode, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return hinted{usagef("--failed: %w", err), "--resume continues with it; remove it to start over, or name another file"}
	case err != nil:
		return usagef("--failed: %w", err)
	}
	if resumed {
		err = dropCutLine(j.out)
	}
	if err != nil {
		return fmt.Errorf("--failed: %w", err)
	}
	return nil
}

// closeFailed closes the file for failed rows. It removes an empty one, which would block
// the next start of a job that can't be resumed.
func (j *job) closeFailed(anew bool) error {
	if j.out == nil {
		return nil
	}
	info, err := j.out.Stat()
	if err == nil && anew && info.Mode().IsRegular() && info.Size() == 0 {
		err = os.Remove(j.out.Name())
	}
	return errors.Join(err, j.out.Close())
}

// dropCutLine removes an incomplete last line, left by a process that died while it
// wrote.
func dropCutLine(f *os.File) error {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	start := max(0, info.Size()-lines.MaxBytes)
	tail := make([]byte, info.Size()-start)
	if _, err := f.ReadAt(tail, start); err != nil {
		return err
	}
	return f.Truncate(start + int64(bytes.LastIndexByte(tail, '\n')) + 1)
}

// failedRow is a line of the file of failed rows.
type failedRow struct {
	PartitionKey string
	RowKey       string
	Reason       string `json:"reason,omitempty"`
}

// rowsFailed lists failed rows.
func (j *job) rowsFailed(rows []action.Failure) error {
	if j.out != nil {
		if err := j.storeFailed(rows); err != nil {
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

// storeFailed appends rows to the file for them. With a checkpoint, the rows reach the
// disk before the checkpoint counts them as done.
func (j *job) storeFailed(rows []action.Failure) error {
	var lines bytes.Buffer
	e := jsonTo(&lines)
	for _, f := range rows {
		if err := e.Encode(failedRow{f.Key.Partition, f.Key.Row, f.Reason}); err != nil {
			return err
		}
	}
	if _, err := j.out.Write(lines.Bytes()); err != nil || j.options.Checkpoint == nil {
		return err
	}
	if err := j.out.Sync(); !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, syscall.EINVAL) { // a pipe has no disk
		return err
	}
	return nil
}

// keys reads the keys of --rows that lie within a range. nil means all rows.
func (j *jobFlags) keys(c *cobra.Command, in key.Range) (*sweep.Keys, error) {
	if j.rows == "" {
		return nil, nil
	}
	f, err := os.Open(j.rows)
	if err != nil {
		err = usagef("--rows: %w", err)
		if j.resume != "" {
			err = hinted{err, "if the file was moved, --rows may name it at its new place"}
		}
		return nil, err
	}
	defer f.Close()
	keys, digest := &sweep.Keys{}, sha256.New()
	list := lines.NewReader(io.TeeReader(f, digest))
	for err == nil {
		err = addKey(c.Context(), list, in, keys)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	was := j.digest
	j.digest = hex.EncodeToString(digest.Sum(nil))
	var disk *fs.PathError
	switch {
	case errors.Is(err, sweep.ErrInterrupted):
		err = j.ended(c, err)
	case errors.As(err, &disk): // such as one that is full
		err = j.ended(c, fmt.Errorf("--rows %s: %w", j.rows, err))
	case err != nil:
		err = usagef("--rows %s: %w", j.rows, err)
	case was != "" && was != j.digest:
		err = usagef("--rows %s: the file has changed since the checkpoint was made", j.rows)
	}
	if err != nil {
		return nil, errors.Join(err, keys.Close())
	}
	return keys, nil
}

// addKey adds the key of the next line, if it lies within the range.
func addKey(ctx context.Context, list *lines.Reader, in key.Range, keys *sweep.Keys) error {
	l, err := list.Next()
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return sweep.ErrInterrupted
	}
	var row struct{ PartitionKey, RowKey *string }
	err = input.Part(l.Text, &row) // scan writes whole rows
	if err == nil && (row.PartitionKey == nil || row.RowKey == nil) {
		err = errors.New("PartitionKey or RowKey is missing")
	}
	if err != nil {
		return fmt.Errorf("line %d must be a JSON object with PartitionKey and RowKey: %w", l.Number, err)
	}
	one := key.Key{Partition: *row.PartitionKey, Row: *row.RowKey}
	if !in.Contains(one) {
		return nil
	}
	return keys.Add(one)
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
	j.meter.Clear()
	if closeErr := j.closeFailed(err != nil && j.flags.point == nil); err == nil {
		err = closeErr
	}
	if err = j.flags.ended(j.cmd, err); err != nil {
		return totals, err
	}
	var doubts int64
	if _, ok := a.(action.Enqueue); ok { // all else may be repeated
		doubts = totals.Doubts
	}
	return totals, j.summary(totals, doubts, verb)
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
}

func (j *job) summary(t sweep.Totals, doubts int64, verb string) error {
	took := time.Since(j.began).Round(time.Millisecond).Seconds()
	r := jobResult{t.Rows, t.Written, t.Rows - t.Written - t.Failed, t.Failed, t.Queries, t.Requests, t.Throttles, took, math.Round(float64(j.ran.Rows) / max(took, 0.001)), doubts}
	duplicates := ""
	if doubts > 0 {
		duplicates = fmt.Sprintf(", up to %d put twice", doubts)
	}
	var err error
	if j.flags.json {
		err = jsonTo(j.cmd.OutOrStdout()).Encode(r)
	} else {
		_, err = fmt.Fprintf(j.cmd.OutOrStdout(), "%s %d of %d rows in %.1f s: %.0f rows/s, %d requests, %d throttled, %d skipped, %d failed%s\n",
			verb, r.Written, r.Rows, r.Seconds, r.RowsPerSec, r.Requests, r.Throttles, r.Skipped, r.Failed, duplicates)
	}
	if err == nil && r.Failed > 0 {
		return hinted{failedRows(r.Failed), j.failedHint()}
	}
	return err
}

func (j *job) failedHint() string {
	if j.out == nil {
		return "run it again with --failed FILE to get all of them in a form that --rows takes"
	}
	return fmt.Sprintf("%s lists them; when the cause is removed, --rows %s retries only those", j.flags.failed, j.flags.failed)
}
