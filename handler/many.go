package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"tablesweep/internal/job"
	"tablesweep/internal/job/verify"
	"tablesweep/internal/place"
	"tablesweep/internal/problem"
	"tablesweep/internal/task/memory"
)

// manyFlags choose several tables.
type manyFlags struct{ job.Choice }

func (f *manyFlags) options() []option {
	return []option{
		{"all", fixed, &f.All, nil, "all tables of the account, or of an export"},
		{"tables", fixed, &f.Patterns, nil, "tables whose names match, such as 'logs*,orders'"},
	}
}

// openHome opens the home of many tables: the place that a flag names or, if the flag is empty, the account of the connection.
func (f *accountFlags) openHome(r *call, flag string, at location, in *connection) (h job.Home, err error) {
	h.IsStateTable = isStateTable
	if at.path == "" {
		h.Account, err = f.openAccount(r, in)
		return h, err
	}
	kind, err := place.KindOf(at.path)
	if err == nil && kind != place.KindExport {
		err = fmt.Errorf("%s is %v", at.path, kind)
	}
	if err != nil {
		return h, job.Hint(usagef("--%s: %w; for many tables, name a directory or a prefix of blobs", flag, err), "to use the tables of an account, leave the flag out; to use a directory, write its path with a slash, such as backup/")
	}
	h.Place, err = f.openPlace(r, flag, at, in)
	h.Path = strings.TrimRight(at.path, "/") + "/"
	return h, err
}

// manyPlaces opens two places, which must differ: the source of the tables, and their destination. The function `fits` checks the options against the
// kinds of the places.
func (p *pairFlags) manyPlaces(r *call, t *job.Tables, fits func(r *call, from, to place.Kind) error) (err error) {
	if r.point.File != nil && len(r.point.Record.Places) == 1 { // the checkpoint is in the directory of the export, which may have moved
		p.to = location{path: strings.TrimRight(r.point.Resume, "/") + "/"}
	}
	if !t.Compares {
		r.changes = p.to.path == "" || place.InBlobs(p.to.path) // with many tables, a path names a directory or blobs, never a table
	}
	if err := p.namesBoth(p.to.path == ""); err != nil {
		return err
	}
	if t.From, err = p.openHome(r, "from", p.from, p.fromConnection.orElse(&p.connection)); err != nil {
		return err
	}
	to, err := p.openHome(r, "to", p.to, p.toConnection.orElse(&p.connection))
	if err != nil {
		return err
	}
	same := t.From.Address() == to.Address()
	if t.From.Account != nil && to.Account != nil {
		same = t.From.Account.Same(to.Account)
	}
	if same {
		return job.Hint(usagef("%v: the source and the destination are both %s", p.Choice, to.Address()), "choose another account with --to-connection, or another place with --to, such as --to backup/")
	}
	if !t.Compares && t.From.Account == nil && to.Account != nil && !p.toConnection.orElse(&p.connection).given() && r.point.File == nil {
		return job.Hint(usagef("--to-connection is missing: a command that writes many tables must name the connection of the destination"), "--to-connection takes the name of a setting, such as AzureWebJobsStorage; --dry-run shows which of the tables already exist in the destination")
	}
	if err := fits(r, t.From.Kind, to.Kind); err != nil {
		return err
	}
	t.Choice, t.To = p.Choice, &to
	return nil
}

// tablesResult is the total result of all tables.
type tablesResult struct {
	Tables    int     `json:"tables"`
	Succeeded int     `json:"succeeded"`
	Different int     `json:"different"`
	Failed    int     `json:"failed"`
	Pending   int     `json:"pending"`
	Rows      int64   `json:"rows"`
	Seconds   float64 `json:"seconds"` // of this run
}

// allTables runs a command for many tables in this process. The function `do` runs the command for one table, with a copy of
// its options.
func (r *call) allTables(t *job.Tables, report reportFlags, do func(*call, job.Own) error) error {
	began := time.Now()
	if err := r.beginTables(t, report); err != nil {
		return err
	}
	return r.endTables(t, report, began, r.eachTable(t, do))
}

func (r *call) beginTables(t *job.Tables, report reportFlags) error {
	r.work(report.style)
	t.Process, t.Options, t.Checkpoint = r.Process, r.givenFlags(), &r.point
	err := t.Begin(r.ctx)
	if err != nil {
		return err
	}
	memory.Limit(t.Checkpoints()...)
	switch {
	case t.To == nil:
	case t.To.Account != nil:
		r.announceChanges(t.To.Address())
	default:
		r.announceDestination(t.To.Place)
	}
	return nil
}

func (r *call) eachTable(t *job.Tables, do func(*call, job.Own) error) error {
	t.Do = func(ctx context.Context, p *job.Part) error {
		one := *r // gets its own context, output and checkpoint
		one.ctx, one.Process, one.part, one.point = ctx, p.Process, p, job.Checkpoint{}
		return do(&one, p.Own)
	}
	return t.Run(r.ctx)
}

// endTables prints the outcome of each table. If no table failed, endTables completes an export and removes the checkpoints. err is the work's
// error, or nil.
func (r *call) endTables(t *job.Tables, report reportFlags, began time.Time, err error) error {
	if t.Journal != nil {
		err = errors.Join(err, t.Journal.Close()) // the journal must be closed before it is removed
	}
	err = cmp.Or(err, failedTables(t))
	if err == nil {
		err = t.Seal(r.ctx)
	}
	if printErr := r.printTables(t, report.json, time.Since(began)); err == nil {
		err = printErr
	}
	switch {
	case t.To == nil: // only "tablesweep count" has no destination, and it cannot be resumed
	case err == nil:
		err = r.finish(func() error { return nil })
	default:
		err = r.withResumeHint(err)
	}
	if err != nil {
		return err
	}
	t.Remove()
	if t.NamesIn(job.Different) != nil {
		return job.ErrDifferent
	}
	return nil
}

// failedTables returns an error that names the failed tables, or nil.
func failedTables(t *job.Tables) error {
	failed := t.NamesIn(job.Failed)
	if failed == nil {
		return nil
	}
	return partlyf("%d of %s failed: %s", len(failed), problem.Plural(len(t.All), "table"), problem.Named(failed, 10))
}

// printTables prints a line for each table, and then the totals.
func (r *call) printTables(all *job.Tables, asJSON bool, took time.Duration) error {
	sum := tablesResult{
		Tables: len(all.All), Succeeded: len(all.NamesIn(job.Succeeded)), Different: len(all.NamesIn(job.Different)), Failed: len(all.NamesIn(job.Failed)),
		Pending: len(all.NamesIn(job.Pending)), Seconds: took.Round(time.Millisecond).Seconds(),
	}
	l := newListing(r.Out, asJSON)
	for _, t := range all.All {
		sum.Rows += t.Rows
		l.add(t, t.Table, problem.Plural(t.Rows, "row"), stateText(t))
	}
	if err := l.end(); err != nil {
		return err
	}
	text := fmt.Sprintf("%s, %s: %d succeeded", problem.Plural(sum.Tables, "table"), problem.Plural(sum.Rows, "row"), sum.Succeeded)
	for _, state := range []string{job.Different, job.Failed, job.Pending} {
		if n := len(all.NamesIn(state)); n > 0 {
			text += fmt.Sprintf(", %d %s", n, state)
		}
	}
	return r.print(asJSON, sum, "%s in %.1f s\n", text, sum.Seconds)
}

// stateText describes a table's state for people.
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
