package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"tablesweep/internal/job"
	"tablesweep/internal/place"
	"tablesweep/internal/storage"
	"tablesweep/internal/sweep/progress"
	"tablesweep/internal/sweep/rowlist"
	"tablesweep/internal/sweep/verify"
	"tablesweep/internal/task/memory"
)

// tableExt ends the name of a table's checkpoint in the directory of many.
const tableExt = ".ckpt"

// How the names of files end that each table has in the directories of --failed and --state.
const (
	failedExt = ".jsonl"
	stateExt  = ".json"
)

// tablesResult sums up all tables.
type tablesResult struct {
	Tables    int     `json:"tables"`
	Succeeded int     `json:"succeeded"`
	Different int     `json:"different"`
	Failed    int     `json:"failed"`
	Pending   int     `json:"pending"`
	Rows      int64   `json:"rows"`
	Seconds   float64 `json:"seconds"` // of this run
}

// manyRun is a command that does the same with many tables: each by a run of the command for one table, in this process.
type manyRun struct {
	job.Tables
	call          *call
	choice        manyFlags
	report        reportFlags
	from          job.Home
	to            *job.Home // nil if the command has but one place
	failed, state string    // the directories of each table's file; "" for none
	compares      bool      // tables are compared, and not written
	allowExtra    bool      // a table that only the destination has is no difference
	// do does a table: by a copy of the command's options, changed by [ofTable].
	do func(*call, ofTable) error

	dir string // of the checkpoint; "" for none
}

// run does what is left of the tables and prints what became of them.
func (r *manyRun) run() (err error) {
	began := time.Now()
	r.call.work(r.report.style)
	r.Process = r.call.Process
	if err := r.Check(); err != nil {
		return err
	}
	if err := r.begin(); err != nil {
		return err
	}
	if r.dir != "" {
		points, _ := filepath.Glob(filepath.Join(r.dir, "*"+tableExt))
		memory.Limit(points...)
	}
	r.Do = func(ctx context.Context, p *job.Part) error {
		one := *r.call // with a context, an output and a checkpoint of its own
		one.ctx, one.Process, one.part, one.point = ctx, p.Process, p, job.Checkpoint{}
		return ended(ctx, one.text, r.do(&one, r.of(p.Table)))
	}
	err = r.Run(r.call.ctx)
	if r.Journal != nil {
		err = errors.Join(err, r.Journal.Close()) // before it is removed
	}
	return r.end(err, time.Since(began))
}

// begin finds the tables, or takes them from the checkpoint to go on with.
func (r *manyRun) begin() (err error) {
	if r.choice.all {
		if err = r.from.Whole(r.call.ctx); err == nil && r.to != nil && !r.exports() {
			err = r.to.Whole(r.call.ctx)
		}
		if err != nil {
			return err
		}
	}
	if r.call.point.File != nil {
		r.dir = r.call.point.Resume
		err = r.restore()
	} else {
		err = r.find()
	}
	for _, dir := range []string{r.failed, r.state} {
		if err == nil {
			err = job.MakeDirectory(dir)
		}
	}
	if err == nil && r.Journal != nil {
		var all []any
		for _, t := range r.All {
			all = append(all, t)
		}
		err = r.Journal.Renew(all)
	}
	if err == nil && r.exports() {
		err = r.claim()
	}
	return err
}

// open opens the checkpoint, if there is to be one. One that stands where the exports are made may move with them.
func (r *manyRun) open() (err error) {
	if err := job.MakeDirectory(r.dir); err != nil || r.dir == "" {
		return err
	}
	places := []string{r.from.Address()}
	if !r.exports() || filepath.Clean(r.dir) != filepath.Clean(r.to.Path) {
		places = append(places, r.to.Address())
	}
	r.call.point.New, r.call.point.In = r.dir, job.TablesJournal // --resume takes the directory
	_, err = r.call.point.Begin(r.call.given(), job.Facts{Places: places})
	r.Journal = r.call.point.File
	return err
}

// restore takes over what became of the tables in earlier runs. Those that failed are tried again.
func (r *manyRun) restore() error {
	if err := r.open(); err != nil {
		return err
	}
	if r.exports() && r.call.point.Export == "" {
		return job.Hint(usagef("--resume %s: another version of this program has begun the export", r.dir), "export to another place")
	}
	if err := r.Resume(); err != nil {
		return err
	}
	for _, t := range r.All {
		if list := inside(r.failed, t.Table, failedExt); t.State == job.Pending && list != "" && !job.IsThere(r.pointOf(t.Table)) {
			if err := rowlist.Remove(r.call.ctx, list); err != nil { // all rows are done again
				return usagef("--failed: %w", err)
			}
		}
	}
	return nil
}

// find lists the tables, and makes a checkpoint if one was asked for. A directory that is exported to is its own.
func (r *manyRun) find() error {
	names, err := r.from.Tables(r.call.ctx)
	if err == nil && len(names) == 0 {
		err = usagef("%v: %s has no table", &r.choice, r.from.Address())
	}
	if err == nil {
		names, err = r.choice.match(names)
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		r.All = append(r.All, job.TableResult{Table: name, State: job.Pending})
	}
	if r.dir = r.call.point.New; r.dir == "" && r.exports() && r.to.Local() {
		r.dir = r.to.Path
	}
	if r.exports() {
		r.call.point.Export = uuid.NewString()
	}
	if err := r.open(); err != nil {
		return err
	}
	return r.check(names)
}

// exports reports whether the tables are written as exports.
func (r *manyRun) exports() bool {
	return r.to != nil && r.to.Objects != nil && !r.compares
}

// pointOf returns the path of a table's checkpoint, "" without one. An export in a directory has it there.
func (r *manyRun) pointOf(table string) string {
	if r.exports() && r.to.Local() {
		return inside(r.to.Path, table, "/"+place.JournalName)
	}
	return inside(r.dir, table, tableExt)
}

// inside returns the path of a table's file in a directory. It is "" without a directory, and for a name that no table can have: such a
// name may lead elsewhere.
func inside(dir, table, ext string) string {
	if dir == "" || storage.CheckTableName(table) != nil {
		return ""
	}
	return filepath.Join(dir, table+ext)
}

// ofTable are the options that a table has in place of the command's.
type ofTable struct {
	from, to, failed, state string
	checkpointFlags
}

// of returns those of a table. It goes on with what was begun.
func (r *manyRun) of(table string) ofTable {
	t := ofTable{from: r.from.Of(table), failed: inside(r.failed, table, failedExt), state: inside(r.state, table, stateExt)}
	if r.to == nil {
		return t
	}
	t.to = r.to.Of(table)
	path := r.pointOf(table)
	switch local, begun := r.exports() && r.to.Local(), job.IsThere(path); {
	case local && begun:
		t.resume = t.to
	case begun:
		t.resume = path
	case !local:
		t.checkpoint = path
	}
	return t
}

// end prints what became of the tables, and returns the command's error.
func (r *manyRun) end(err error, took time.Duration) error {
	if failed := r.In(job.Failed); err == nil && failed != nil {
		err = partlyf("%d of %s failed: %s", len(failed), progress.Plural(len(r.All), "table"), strings.Join(failed, ", "))
	}
	if err == nil && r.exports() {
		err = job.BlobHint(place.SealTables(r.call.ctx, r.to.Objects, r.call.point.Export, r.In(job.Succeeded)))
	}
	if printErr := r.print(took); err == nil {
		err = printErr
	}
	switch {
	case r.to == nil: // count can't be resumed
	case err == nil:
		err = r.call.finish(func() error { return nil })
	default:
		err = r.call.leave(err)
	}
	if err != nil {
		return err
	}
	if r.Journal != nil {
		for _, t := range r.All { // of one that was killed when it had noted the table
			_ = os.Remove(r.pointOf(t.Table))
		}
		_ = os.Remove(r.dir) // one with files of others stays
	}
	if r.In(job.Different) != nil {
		return job.ErrDifferent
	}
	return nil
}

// print prints a line a table, and the sum.
func (r *manyRun) print(took time.Duration) error {
	sum := tablesResult{
		Tables: len(r.All), Succeeded: len(r.In(job.Succeeded)), Different: len(r.In(job.Different)), Failed: len(r.In(job.Failed)),
		Pending: len(r.In(job.Pending)), Seconds: took.Round(time.Millisecond).Seconds(),
	}
	l := newListing(r.call.Out, r.report.json)
	for _, t := range r.All {
		sum.Rows += t.Rows
		l.add(t, t.Table, progress.Plural(t.Rows, "row"), stateText(t))
	}
	if err := l.end(); err != nil {
		return err
	}
	text := fmt.Sprintf("%s, %s: %d succeeded", progress.Plural(sum.Tables, "table"), progress.Plural(sum.Rows, "row"), sum.Succeeded)
	for _, state := range []string{job.Different, job.Failed, job.Pending} {
		if n := len(r.In(state)); n > 0 {
			text += fmt.Sprintf(", %d %s", n, state)
		}
	}
	return r.call.print(r.report.json, sum, "%s in %.1f s\n", text, sum.Seconds)
}

// stateText is a table's state for people.
func stateText(t job.TableResult) string {
	var n verify.Result
	switch {
	case t.Error != "":
		return t.State + ": " + t.Error
	case t.State == job.Different && json.Unmarshal(t.Result, &n) == nil:
		return fmt.Sprintf("%s: %d missing, %d extra, %d different", t.State, n.Missing, n.Extra, n.Different)
	}
	return t.State
}
