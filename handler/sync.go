package main

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"tablesweep/internal/job"
	"tablesweep/internal/job/progress"
	"tablesweep/internal/job/sweep"
	"tablesweep/internal/job/verify"
	"tablesweep/internal/place"
	"tablesweep/internal/problem"
)

type syncOptions struct {
	rowFlags
	pairFlags
	reportFlags
	mapFlags
	yesFlag
	deleteExtra, dryRun bool
	maxDeletes          int64 // -1 if not given
}

func (o *syncOptions) options() []option {
	return slices.Concat(o.pairFlags.options(), o.rowFlags.options(), o.reportFlags.options(progress.Auto, "print the result as JSON"), o.mapFlags.options(),
		o.yesFlag.options(), []option{
			{"delete-extra", perRun, &o.deleteExtra, nil, "delete rows that only the destination has"},
			{"max-deletes", perRun, &o.maxDeletes, int64(-1), "refuse to delete more rows than this"},
			{"dry-run", perRun, &o.dryRun, nil, "compare and show the planned changes, but make none"},
		})
}

// check returns an error if the flags do not fit the places, or if nobody can confirm the sync.
func (o *syncOptions) check(r *call, from, to place.Kind) error {
	if from == place.KindFile || from == place.KindStream {
		return usagef("--from %s is %v, but sync needs rows in order; import the rows into a table first", o.from.path, from)
	}
	if to != place.KindTable {
		return usagef("--to %s is %v, but sync changes only tables; to write files, use tablesweep export", o.to.path, to)
	}
	if err := o.conflicts(r, append(o.besideAccounts(from, to), conflict{"max-deletes", !o.deleteExtra, "the flag is only for --delete-extra, which is not given"})); err != nil {
		return err
	}
	if err := o.keepsFor(o.Filter); err != nil {
		return err
	}
	switch {
	case o.maxDeletes < -1:
		return usagef("--max-deletes is %d; it must be 0 or more", o.maxDeletes)
	case o.dryRun, !o.yes && isTerminal(r.In):
		return nil
	case !o.yes:
		flags := "--yes makes the changes without asking"
		if o.deleteExtra {
			flags = "--yes --max-deletes N makes the changes without asking, if at most N rows are extra"
		}
		return job.Hint(usagef("stdin is not a terminal; cannot ask whether to change %s", cmp.Or(o.to.path, "many tables")), flags+"; --dry-run shows the planned changes")
	case o.deleteExtra && o.maxDeletes < 0:
		return job.Hint(usagef("--delete-extra with --yes needs --max-deletes N"), "N is the maximum number of rows that may be deleted; --dry-run shows how many rows are extra")
	}
	return nil
}

func (o *syncOptions) run(r *call) error {
	r.changes, r.dry = true, o.dryRun
	if o.Many() {
		return o.syncTables(r)
	}
	from, to, err := o.kinds()
	if err == nil {
		err = o.check(r, from, to)
	}
	if err != nil {
		return err
	}
	r.work(o.style)
	file, err := o.planFile()
	if err != nil {
		return err
	}
	defer file.Close()
	s, err := o.open(r)
	if err != nil {
		return err
	}
	plan, found, err := s.Plan(r.ctx, file)
	if err != nil {
		return err
	}
	done := job.SyncResult{Result: found}
	if o.dryRun {
		return cmp.Or(r.print(o.json, plan, "%v\n", plan), o.limit(plan), plan.Differs())
	}
	if plan.Changes() {
		if err := o.agree(r, plan, "the table's name", o.to.path); err != nil {
			return err
		}
		if done, err = s.Do(r.ctx, plan); err != nil {
			return err
		}
	}
	if err := o.printDifferences(r, done.Result); err != nil {
		return err
	}
	text := fmt.Sprintf("wrote %s, deleted %s\n", problem.Plural(done.Written, "row"), problem.Plural(done.Deleted, "row"))
	if done.Kept > 0 {
		text += fmt.Sprintf("kept %s that changed during the sync\n", problem.Plural(done.Kept, "row"))
	}
	return cmp.Or(r.print(o.json, done, "%scompared %s\n", text, job.Compared(done.Result)), o.checkEqual(plan, done))
}

// syncTables syncs many tables, after it has compared all of them.
func (o *syncOptions) syncTables(r *call) error {
	began := time.Now()
	all := job.Tables{Rows: o.Rows, Phase: "comparing"}
	err := o.manyPlaces(r, &all, o.check)
	if err == nil {
		err = r.beginTables(&all, o.reportFlags)
	}
	if err != nil {
		return err
	}
	file, err := o.planFile()
	if err != nil {
		return err
	}
	defer file.Close()
	var mu sync.Mutex // guards the variables below
	plans, sum, refused := map[string]job.SyncPlan{}, job.SyncPlan{}, 0
	err = r.eachTable(&all, func(r *call, t job.Own) error {
		plan, err := o.forTable(t).plan(r, file)
		mu.Lock()
		defer mu.Unlock()
		if job.Refused(err) {
			refused++
		}
		if err != nil || plan.Differs() == nil {
			return err
		}
		plans[r.part.Table] = plan
		sum.Add(plan)
		return job.ErrDifferent
	})
	failed := all.NamesIn(job.Failed)
	sum.Failed = int64(len(failed))
	var nothing error
	if len(failed) > 0 && len(failed) == refused && (o.dryRun || !sum.Changes()) {
		nothing = usagef("nothing was changed; sync refused %d of %s (%s)", refused, problem.Plural(len(all.All), "table"), problem.Named(failed, 10))
	}
	switch {
	case err != nil:
	case o.dryRun:
		return cmp.Or(r.printTables(&all, o.json, time.Since(began)), r.print(o.json, sum, "%v\n", sum), o.limit(sum), nothing, failedTables(&all), sum.Differs())
	case nothing != nil:
		err = nothing
	case sum.Changes():
		if err := o.agree(r, sum, "sync", "sync"); err != nil {
			return err
		}
		all.Phase = "syncing"
		all.Repeat(func(table string) bool { return plans[table].Changes() })
		err = r.eachTable(&all, func(r *call, t job.Own) error {
			s, err := o.forTable(t).open(r)
			if err != nil {
				return err
			}
			plan := plans[r.part.Table]
			done, err := s.Do(r.ctx, plan)
			r.part.Result = done
			return cmp.Or(err, o.checkEqual(plan, done))
		})
	}
	return r.endTables(&all, o.reportFlags, began, err)
}

func (o *syncOptions) forTable(t job.Own) *syncOptions {
	one := *o
	one.manyFlags, one.from.path, one.to.path = manyFlags{}, t.From, t.To
	return &one
}

func (o *syncOptions) open(r *call) (*job.Sync, error) {
	m, err := o.mapFlags.open()
	if err != nil {
		return nil, err
	}
	from, to, err := o.openPair(r, false)
	if err != nil {
		return nil, err
	}
	options := job.Options{Process: r.Process, Rows: o.Rows, From: from, Map: m}
	s, err := job.NewSync(r.ctx, job.PairOptions{Options: options, To: to, AllWorkers: o.Workers != sweep.DefaultWorkers}, o.deleteExtra)
	if err == nil && r.part == nil { // with many tables, only one call announces the destination
		r.announceDestination(to)
	}
	return s, err
}

// plan compares one table's source with its destination. It is called for each table in a sync of many tables.
func (o *syncOptions) plan(r *call, file *verify.PlanFile) (plan job.SyncPlan, err error) {
	s, err := o.open(r)
	if err == nil {
		plan, r.part.Result, err = s.Plan(r.ctx, file)
	}
	return plan, err
}

// planFile returns the file for the plan, or nil in a dry run.
func (o *syncOptions) planFile() (*verify.PlanFile, error) {
	if o.dryRun {
		return nil, nil
	}
	return verify.NewPlanFile()
}

// limit refuses a plan with more deletions than --max-deletes.
func (o *syncOptions) limit(plan job.SyncPlan) error {
	if o.maxDeletes < 0 || plan.Delete <= o.maxDeletes {
		return nil
	}
	err := usagef("--max-deletes is %d, but %s would be deleted; nothing was changed", o.maxDeletes, problem.Plural(plan.Delete, "row"))
	return job.Hint(err, fmt.Sprintf("--max-deletes %d allows these deletions", plan.Delete))
}

// agree prints the plan, and asks whether to make its changes.
func (o *syncOptions) agree(r *call, plan job.SyncPlan, typed, answer string) error {
	r.Meter.Print("plan", plan.String())
	if err := o.limit(plan); err != nil {
		return err
	}
	return o.confirm(r, "make these changes", "They cannot be undone. ", "", typed, answer)
}

// checkEqual returns an error if the sync did not make the places equal.
func (o *syncOptions) checkEqual(plan job.SyncPlan, done job.SyncResult) error {
	switch {
	case done.Failed > 0:
		return job.Hint(failedRows(done.Failed), "remove the cause of the failures, and run the command again; no row is deleted until all rows are copied")
	case done.Differences() == 0:
		return nil
	case done.Extra > 0 && !o.deleteExtra:
		return job.Hint(job.ErrDifferent, "--delete-extra deletes the rows that only the destination has")
	case o.program != "" && o.Filter != "":
		return job.Hint(job.ErrDifferent, "--filter may compare a property that the map changes. In the source, --filter sees the old value; in the destination, it sees the new value. If so, leave this property out of --filter. If not, another program may be writing to the source or the destination")
	case plan.Leave > 0 && o.Filter != "":
		return job.Hint(job.ErrDifferent, "sync leaves out the source's rows that do not match --filter, so the destination's rows with the same keys count as extra; run sync without --filter")
	}
	return job.Hint(job.ErrDifferent, "another program is writing to the source or the destination; run the command again")
}
