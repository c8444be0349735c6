package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"time"

	"tablesweep/internal/job"
	"tablesweep/internal/job/progress"
	"tablesweep/internal/job/sweep"
	"tablesweep/internal/problem"
	"tablesweep/internal/task"
)

// reportFlags are --progress and --json, for commands that process many rows.
type reportFlags struct {
	json  bool
	style progress.Style
}

// options returns the options --progress and --json. The argument `standard` is the default of --progress, and asJSON is the description of --json.
func (p *reportFlags) options(standard progress.Style, asJSON string) []option {
	style := choose("progress", perRun, &p.style, "plain (a live line), json, none, or auto: plain on a terminal, else json", "", progress.Styles...)
	style.standard = standard
	return []option{{"json", perRun, &p.json, nil, asJSON}, style}
}

// jobFlags are the flags of commands that do something with every row.
type jobFlags struct {
	reportFlags
	checkpointFlags
	dryRun       dryRun
	failed, rows string
}

func (j *jobFlags) options() []option {
	return slices.Concat([]option{
		{"failed", anyFile, &j.failed, nil, "file for the rows that fail"},
		{"rows", aFile, &j.rows, nil, "only the rows listed in this file, which --failed or scan wrote"},
		{"dry-run", perRun, &j.dryRun, nil, "make no changes, but count rows for 30 s, estimate the requests, and check permissions; --dry-run=full counts all rows"},
	}, j.reportFlags.options(progress.Auto, "print the result as JSON"), j.checkpointFlags.options())
}

// job returns a job's options, and prepares the process (see [call.work]).
func (j *jobFlags) job(r *call, rows job.Rows, from job.Place) job.Options {
	r.work(j.style, j.resume)
	return job.Options{Process: r.Process, Rows: rows, From: from, List: j.rows, Failed: j.failed, Resumed: j.resume != "", Was: job.Facts{Digest: r.point.Record.Rows}}
}

// runEach runs a job that does something with each row. In a dry run, it prints an estimate instead. err is the error of the job's preparation, or nil.
// verb is the summary's first word, such as "copied". If `confirm` is not nil, it asks whether to start. If `finally` is not nil, it is called after the job,
// even if rows failed.
func (j *jobFlags) runEach(r *call, prepared *job.Job, err error, verb string, confirm, finally func() error) error {
	if err != nil {
		if !job.Refused(err) && (errors.Is(err, task.ErrInterrupted) || errors.As(err, new(*fs.PathError))) {
			err = r.withResumeHint(err)
		}
		return err
	}
	if j.dryRun.on {
		return prepared.Close(j.showEstimate(r, prepared))
	}
	if confirm != nil {
		if err := confirm(); err != nil {
			return prepared.Close(err)
		}
	}
	err = j.perform(r, prepared, verb)
	if finally != nil && (err == nil || exitCode(err) == exitFailedRows) {
		err = cmp.Or(finally(), err)
	}
	return prepared.Close(err)
}

func (j *jobFlags) perform(r *call, prepared *job.Job, verb string) error {
	done, err := r.runJob(prepared, func(t job.Result) error { return j.summary(r, t, verb) })
	if err != nil && done.Lines.Unproven { // without a checkpoint, nobody knows what was written
		err = cmp.Or(j.summary(r, done, verb), err)
	}
	if err != nil || done.Failed == 0 {
		return err
	}
	hint := "run the command again with --failed FILE to list all failed rows in a form that --rows accepts"
	switch {
	case done.Lines.Unproven:
		hint = "--failed FILE lists all of them; when the cause is removed, " + job.ImportAgain
	case j.failed != "":
		hint = fmt.Sprintf("%s lists the failed rows; when the cause is removed, --rows %s retries only these rows", j.failed, j.failed)
	}
	return job.Hint(failedRows(done.Failed), hint)
}

// figures holds the number of requests and the time of a job.
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

// The verbs in the summaries of `tablesweep delete` and `tablesweep enqueue`. After a crash and a resume, the counts in these summaries may be too low.
// If a row was deleted, and the checkpoint has lost the line about the row's page, the row is never counted. If a message was sent but not yet
// counted, it is sent twice and counted once.
const (
	deleted  = "deleted"
	enqueued = "enqueued"
)

// uncounted reports whether the command may have done more work than it counted. This is possible after a resume: a crash may
// have removed the checkpoint's last lines, which recorded finished work, and the command cannot notice this.
func (r *call) uncounted() bool { return r.point.File != nil && r.point.File.Resumed() }

// jobResult holds the totals of a job that does something with each row.
type jobResult struct {
	Rows    int64 `json:"rows"`
	Written int64 `json:"written"`
	Skipped int64 `json:"skipped"`
	Failed  int64 `json:"failed"`
	Queries int64 `json:"queries"`
	figures
	Doubts int64 `json:"possibleDuplicates,omitempty"` // messages that may have been sent twice
	More   bool  `json:"moreBefore,omitempty"`         // before the resume, the command may have deleted rows, or sent messages, without counting them
	job.Lines
}

func (j *jobFlags) summary(r *call, t job.Result, verb string) error {
	sum := jobResult{t.Rows, t.Written, t.Rows - t.Written - t.Failed, t.Failed, t.Queries, figuresOf(t), t.Doubts, false, t.Lines}
	sum.Rows += t.Lines.Repeated
	sum.More = r.uncounted() && (verb == deleted || verb == enqueued) // after a resume, commands other than delete and enqueue repeat the uncounted work, and count it
	if sum.More && verb == deleted {
		verb += " at least"
	}
	text := fmt.Sprintf("%s %d of %s", verb, sum.Written, problem.Plural(sum.Rows, "row"))
	switch {
	case j.resume != "" && t.Now == (sweep.Totals{}):
		text += " before; nothing was left to do"
	case j.resume != "":
		text += fmt.Sprintf(", %d of them now in %.1f s: %.0f rows/s", t.Now.Rows, sum.Seconds, sum.RowsPerSec)
	default:
		text += fmt.Sprintf(" in %.1f s: %.0f rows/s", sum.Seconds, sum.RowsPerSec)
	}
	text += fmt.Sprintf(", %s, %d throttled, %d skipped, %d failed", problem.Plural(sum.Requests, "request"), sum.Throttles, sum.Skipped, sum.Failed)
	if sum.Doubts > 0 {
		text += fmt.Sprintf(", up to %d put twice", sum.Doubts)
	}
	if verb == enqueued && sum.More {
		text += ", perhaps more sent twice"
	}
	switch {
	case sum.MoreRepeated && sum.Repeated > 0:
		text += fmt.Sprintf(", at least %d repeated", sum.Repeated)
	case sum.Repeated > 0:
		text += fmt.Sprintf(", %d repeated", sum.Repeated)
	}
	return r.print(j.json, sum, "%s\n", text)
}
