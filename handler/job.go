package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"time"

	"github.com/spf13/cobra"

	"tablesweep/internal/job"
	"tablesweep/internal/sweep"
	"tablesweep/internal/sweep/progress"
	"tablesweep/internal/task"
	"tablesweep/internal/task/memory"
)

// reportFlags are --progress and --json, of commands that work over rows.
type reportFlags struct {
	jsonFlag
	style progress.Style
}

func (p *reportFlags) add(c *cobra.Command, standard progress.Style, asJSON string) {
	p.jsonFlag.add(c, asJSON)
	p.style = standard
	addChoice(c, &p.style, "progress", "plain (a live line), json, none, or auto: plain on a terminal, else json", "", progress.Styles...)
}

// process returns what a job needs of the command around it. It makes the command's meter show what the flag says, and limits the process's memory,
// which holds the files.
func (p *reportFlags) process(c *cobra.Command, files ...string) job.Process {
	if part := sharedBy(c).part; part != nil {
		return part.Process
	}
	memory.Limit(files...)
	sharedBy(c).meter.Use(p.style)
	return process(c)
}

// print prints a result: v as JSON, or else the text. That of one of many tables goes to their summary.
func (p *reportFlags) print(c *cobra.Command, v any, text string, args ...any) error {
	if part := sharedBy(c).part; part != nil {
		part.Result = v
		return nil
	}
	return p.jsonFlag.print(c, v, text, args...)
}

// jobFlags are the flags of commands that do something with every row.
type jobFlags struct {
	reportFlags
	checkpointFlags
	dryRun       dryRun
	failed, rows string
}

func (j *jobFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&j.failed, "failed", "", "file for the rows that failed")
	flags.StringVar(&j.rows, "rows", "", "only the rows in this file, of --failed or scan")
	j.reportFlags.add(c, progress.Auto, "print the result as JSON")
	j.checkpointFlags.add(c)
	j.dryRun.add(c)
}

// options returns the options of a job that the flags ask for.
func (j *jobFlags) options(c *cobra.Command, rows job.Rows, from job.Place) job.Options {
	return job.Options{Process: j.process(c, j.resume), Rows: rows, From: from, List: j.rows, Failed: j.failed, Resumed: j.resume != "", Was: j.was}
}

// each runs a job that does something with each row, or shows what it would do. err is that of its preparation; confirm, if it is not nil,
// asks whether it is meant; verb says what it did; then, if it is not nil, follows, even if rows failed.
func (j *jobFlags) each(c *cobra.Command, prepared *job.Job, err error, verb string, confirm, then func() error) error {
	if err != nil {
		if !job.Refused(err) && (errors.Is(err, task.ErrInterrupted) || errors.As(err, new(*fs.PathError))) {
			err = j.ended(c, err, nil)
		}
		return err
	}
	if j.dryRun.on {
		return prepared.Close(j.showEstimate(c, prepared))
	}
	if confirm != nil {
		if err := confirm(); err != nil {
			return prepared.Close(err)
		}
	}
	err = j.run(c, prepared, verb)
	if then != nil && (err == nil || exitCode(err) == exitFailedRows) {
		err = cmp.Or(then(), err)
	}
	return prepared.Close(err)
}

func (j *jobFlags) run(c *cobra.Command, prepared *job.Job, verb string) error {
	r, err := j.do(c, prepared, func(r job.Result) error { return j.summary(c, r, verb) })
	if err != nil || r.Failed == 0 {
		return err
	}
	hint := "run it again with --failed FILE to get all of them in a form that --rows takes"
	switch {
	case r.Lines.Unproven:
		hint = "--failed FILE lists all of them; when the cause is removed, " + job.ImportAgain
	case j.failed != "":
		hint = fmt.Sprintf("%s lists them; when the cause is removed, --rows %s retries only those", j.failed, j.failed)
	}
	return job.Hint(failedRows(r.Failed), hint)
}

// figures are what a job took.
type figures struct {
	Requests   int64   `json:"requests"`
	Throttles  int64   `json:"throttles"`
	Seconds    float64 `json:"seconds"`       // of this run
	RowsPerSec float64 `json:"rowsPerSecond"` // of this run
}

func figuresOf(r job.Result) figures {
	took := r.Took.Round(time.Millisecond).Seconds()
	return figures{r.Requests, r.Throttles, took, math.Round(float64(r.Now.Rows) / max(took, 0.001))}
}

// jobResult has the totals of a job that does something with each row.
type jobResult struct {
	Rows    int64 `json:"rows"`
	Written int64 `json:"written"`
	Skipped int64 `json:"skipped"`
	Failed  int64 `json:"failed"`
	Queries int64 `json:"queries"`
	figures
	Doubts int64 `json:"possibleDuplicates,omitempty"`
	More   bool  `json:"moreBefore,omitempty"` // rows may be gone that nobody has counted
	job.Lines
}

// unproven ends the last line about a file or a pipe: one that was cut between two rows looks whole.
const unproven = "; only an export in a directory or in blobs proves that it is whole"

// summary prints a job's totals.
func (j *jobFlags) summary(c *cobra.Command, t job.Result, verb string) error {
	r := jobResult{t.Rows, t.Written, t.Rows - t.Written - t.Failed, t.Failed, t.Queries, figuresOf(t), t.Doubts, false, t.Lines}
	r.Rows += t.Lines.Repeated
	text := fmt.Sprintf("%s %d of %d rows", verb, r.Written, r.Rows)
	switch {
	case j.resume != "" && t.Now == (sweep.Totals{}):
		text += " before; nothing was left to do"
	case j.resume != "":
		text += fmt.Sprintf(", %d of them now in %.1f s: %.0f rows/s", t.Now.Rows, r.Seconds, r.RowsPerSec)
	default:
		text += fmt.Sprintf(" in %.1f s: %.0f rows/s", r.Seconds, r.RowsPerSec)
	}
	text += fmt.Sprintf(", %d requests, %d throttled, %d skipped, %d failed", r.Requests, r.Throttles, r.Skipped, r.Failed)
	if r.Doubts > 0 {
		text += fmt.Sprintf(", up to %d put twice", r.Doubts)
	}
	switch {
	case r.MoreRepeated && r.Repeated > 0:
		text += fmt.Sprintf(", at least %d repeated", r.Repeated)
	case r.Repeated > 0:
		text += fmt.Sprintf(", %d repeated", r.Repeated)
	}
	if r.Unproven {
		text += unproven
	}
	if r.More = j.file != nil && j.file.Torn() && verb == "deleted"; r.More { // all others find their rows again
		text += "; the checkpoint's end was damaged, so rows that were deleted before may not be counted here"
	}
	return j.print(c, r, "%s\n", text)
}

// process returns what a job needs of the command around it.
func process(c *cobra.Command) job.Process {
	t := sharedBy(c)
	return job.Process{Meter: t.meter, Abort: t.second.Done(), In: c.InOrStdin(), Out: c.OutOrStdout(), Program: program(), FileBytes: t.fileBytes}
}
