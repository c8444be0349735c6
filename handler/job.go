package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tablesweep/internal/action"
	"tablesweep/internal/input"
	"tablesweep/internal/key"
	"tablesweep/internal/storage"
	"tablesweep/internal/sweep"
	"tablesweep/internal/sweep/progress"
)

const jobHelp = `A failed row does not stop the others. It is listed on stderr, or in the file given by --failed,
with its keys and the reason. --rows takes such a file, of any size, and handles only
its rows, within --prefix, --after and --before. Without --filter, a listed row that the
table does not have fails.

With --checkpoint FILE the command can be interrupted at any time, by Ctrl-C, a crash
or a reboot. --resume FILE continues where it stopped, and needs no other flags, with one
exception: a connection that was not the name of a variable must be given again, because the
file holds no secrets. --failed may name another file. The file of --rows must be unchanged.`

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
	m := toldBy(c).meter
	m.Use(progress.Style(p.style))
	return m, nil
}

// jobFlags are the flags of commands that do something with every row.
type jobFlags struct {
	progressFlag
	checkpoint, resume string
	failed, rows       string
	json               bool
	point              *sweep.Checkpoint // set by restore
	places             []string          // that the checkpoint was made for
	digest             string            // of the file of rows; "" if the checkpoint has them
}

// oncePerRun are flags that a checkpoint does not keep.
var oncePerRun = []string{"checkpoint", "resume", "progress", "json", "workers", "yes", "help", "dry-run", "patience", "pprof"}

func (j *jobFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&j.checkpoint, "checkpoint", "", "file that records the progress; it must not exist, and is removed at the end")
	flags.StringVar(&j.resume, "resume", "", "resume from this checkpoint")
	flags.StringVar(&j.failed, "failed", "", "file for the rows that failed, a JSON object a line")
	flags.StringVar(&j.rows, "rows", "", "only the rows that this file lists, in the form of --failed and scan")
	flags.BoolVar(&j.json, "json", false, "print the result as JSON")
	j.progressFlag.add(c, progress.Auto)
	c.PreRunE = func(c *cobra.Command, _ []string) error { return j.restore(c) }
}

// jobRecord is what a checkpoint keeps of a command.
type jobRecord struct {
	Version int               `json:"version"`
	Command string            `json:"command"`
	Flags   map[string]string `json:"flags"`
	Again   []string          `json:"again,omitempty"` // flags with a connection that may be secret
	Places  []string          `json:"places"`          // addresses of its tables and queue
	Rows    string            `json:"rows,omitempty"`  // a digest of the file of rows
}

// jobVersion changes with the record. Earlier records name no endpoints, so a resumed job
// could mistake a table of another account for its own.
const jobVersion = 2

// restore sets flags to the checkpoint's values.
func (j *jobFlags) restore(c *cobra.Command) error {
	switch {
	case j.resume == "":
		return nil
	case j.checkpoint != "":
		return usagef("--checkpoint starts and --resume continues; give one of them")
	}
	var err error
	if j.point, err = sweep.ReadCheckpoint(j.resume); err != nil {
		switch {
		case errors.Is(err, sweep.ErrLocked):
			return hinted{usageError{err}, "wait until it has ended, or stop it"}
		case errors.Is(err, fs.ErrNotExist):
			return hinted{usageError{err}, "a finished command removes its checkpoint"}
		}
		return usageError{err}
	}
	var record jobRecord
	if err := json.Unmarshal(j.point.Job(), &record); err != nil || record.Command != c.Name() {
		return usagef("--resume %s: the file belongs to the command %q", j.resume, record.Command)
	}
	if record.Version != jobVersion {
		return usagef("--resume %s: another version of this program made the file; go on with that version", j.resume)
	}
	for _, name := range record.Again {
		if f := c.Flags().Lookup(name); f == nil || !f.Changed {
			return usagef("--%s held more than a setting's name when the checkpoint was made, which does not keep secrets; give it again", name)
		}
	}
	j.places, j.digest = record.Places, record.Rows
	for _, name := range slices.Sorted(maps.Keys(record.Flags)) {
		f := c.Flags().Lookup(name)
		switch {
		case f == nil:
			return usagef("--resume %s: this program has no flag --%s", j.resume, name)
		case f.Changed && name == "failed": // its file may be what stopped the job
		case f.Changed && flagText(f) != record.Flags[name]:
			return usagef("--%s was %q when the checkpoint was made and can't change; leave it out", name, record.Flags[name])
		case !f.Changed:
			if err := c.Flags().Set(name, record.Flags[name]); err != nil {
				return usagef("--resume %s: %w", j.resume, err)
			}
		}
	}
	return nil
}

// flagText returns a flag's value in the form that its Set method takes.
func flagText(f *pflag.Flag) string {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return strings.Join(list.GetSlice(), ",")
	}
	return f.Value.String()
}

// job is a command that does something with every row, under way.
type job struct {
	flags   *jobFlags
	cmd     *cobra.Command
	meter   *progress.Meter
	options sweep.Options
	out     *os.File // gets failed rows; nil if none was asked for
	listed  int
	began   time.Time
	ran     sweep.Totals // of this run alone
}

// start prepares the job. places are the addresses of the tables and queues that it is
// about: a checkpoint is good for them alone.
func (j *jobFlags) start(c *cobra.Command, workers int, places ...string) (*job, error) {
	limitMemory(j.resume)
	meter, err := j.meter(c)
	if err != nil {
		return nil, err
	}
	job := &job{flags: j, cmd: c, meter: meter, began: time.Now()}
	job.options = sweepOptions(c, workers)
	job.options.Failed = job.rowsFailed
	job.options.Watch = func(p sweep.Progress) {
		job.ran = p.Run
		meter.Show(p)
	}
	switch {
	case j.point != nil && !slices.Equal(places, j.places):
		return nil, usagef("the checkpoint is about %s, not %s; check the connections", strings.Join(j.places, " and "), strings.Join(places, " and "))
	case j.checkpoint != "":
		j.point, err = sweep.NewCheckpoint(j.checkpoint, j.record(c, places))
		if errors.Is(err, fs.ErrExist) {
			return nil, hinted{usageError{err}, "--resume continues from it; remove it to start over"}
		}
		if err != nil {
			return nil, usageError{err}
		}
	}
	job.options.Checkpoint = j.point
	return job, job.openFailed()
}

func (j *jobFlags) record(c *cobra.Command, places []string) json.RawMessage {
	r := jobRecord{Version: jobVersion, Command: c.Name(), Flags: map[string]string{}, Places: places, Rows: j.digest}
	c.Flags().Visit(func(f *pflag.Flag) {
		switch {
		case slices.Contains(oncePerRun, f.Name):
		case strings.Contains(f.Name, "connection") && !isSetting(f.Value.String()):
			r.Again = append(r.Again, f.Name)
		default:
			r.Flags[f.Name] = flagText(f)
		}
	})
	b, err := json.Marshal(r)
	if err != nil {
		panic("handler: internal error: " + err.Error())
	}
	return b
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
	start := max(0, info.Size()-maxLineBytes)
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
	for _, f := range rows {
		if j.listed++; j.listed > maxListed {
			return nil
		}
		j.meter.Say("failed", f.String())
		if j.listed == maxListed {
			j.meter.Say("warning", "further failed rows are counted, not listed; --failed FILE takes all of them")
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

// keys reads the keys of --rows that lie within a range. nil means all rows, or the
// checkpoint's.
func (j *jobFlags) keys(ctx context.Context, in key.Range) (*sweep.Keys, error) {
	if j.rows == "" || j.resume != "" && j.digest == "" {
		return nil, nil
	}
	f, err := os.Open(j.rows)
	if err != nil {
		return nil, usagef("--rows: %w", err)
	}
	defer f.Close()
	keys, digest := &sweep.Keys{}, sha256.New()
	err = readLines(io.TeeReader(f, digest), func(l inputLine) error {
		if ctx.Err() != nil {
			return sweep.ErrInterrupted
		}
		var row struct{ PartitionKey, RowKey *string }
		err := input.Part(l.text, &row) // scan writes whole rows
		if err == nil && (row.PartitionKey == nil || row.RowKey == nil) {
			err = errors.New("PartitionKey or RowKey is missing")
		}
		if err != nil {
			return fmt.Errorf("line %d must be a JSON object with PartitionKey and RowKey: %w", l.number, err)
		}
		one := key.Key{Partition: *row.PartitionKey, Row: *row.RowKey}
		if !in.Contains(one) {
			return nil
		}
		return keys.Add(one)
	})
	was := j.digest
	j.digest = hex.EncodeToString(digest.Sum(nil))
	switch {
	case errors.Is(err, sweep.ErrInterrupted):
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
	switch {
	case errors.Is(err, sweep.ErrInterrupted) && j.flags.point == nil:
		return totals, hinted{err, "it can't be resumed without --checkpoint FILE"}
	case errors.Is(err, storage.ErrAway) && j.flags.point == nil:
		return totals, hinted{err, "it can't be resumed without --checkpoint FILE; --patience sets how long to wait for an account"}
	case err != nil && j.flags.point != nil:
		return totals, hinted{err, fmt.Sprintf("%s %s --resume %s continues with the rest", j.cmd.Root().Name(), j.cmd.Name(), j.resumeFile())}
	case err != nil:
		return totals, err
	}
	if j.flags.point != nil {
		if err := j.flags.point.Remove(); err != nil {
			return totals, err
		}
	}
	var doubts int64
	if _, ok := a.(action.Enqueue); ok { // all else may be repeated
		doubts = totals.Doubts
	}
	return totals, j.summary(totals, doubts, verb)
}

func (j *job) resumeFile() string {
	if j.flags.resume != "" {
		return j.flags.resume
	}
	return j.flags.checkpoint
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
