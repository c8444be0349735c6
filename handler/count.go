package main

import (
	"slices"

	"tablesweep/internal/job"
	"tablesweep/internal/job/progress"
)

type countOptions struct {
	sourceFlags
	manyFlags
	reportFlags
}

func (o *countOptions) options() []option {
	return slices.Concat(o.sourceFlags.options(), o.manyFlags.options(), o.reportFlags.options(progress.Auto, "print the count and the number of requests as JSON"))
}

func (o *countOptions) run(r *call) error {
	if o.Many() {
		return o.countMany(r)
	}
	from, err := o.source(r, false)
	if err != nil {
		return err
	}
	r.work(o.style)
	totals, err := job.Count(r.ctx, job.Options{Process: r.Process, Rows: o.Rows, From: from})
	if err != nil {
		return err
	}
	return r.print(o.json, statsOf(totals), "%d\n", totals.Rows)
}

func (o *countOptions) countMany(r *call) error {
	from, err := o.openHome(r, "table", o.table, &o.connection)
	if err == nil && from.Local() && o.connection.given() {
		err = usagef("--table %s is a directory, which has no connection; leave --connection out", o.table.path)
	}
	if err != nil {
		return err
	}
	all := job.Tables{Rows: o.Rows, Phase: "counting", Choice: o.Choice, From: from}
	return r.allTables(&all, o.reportFlags, func(r *call, t job.Own) error {
		one := *o
		one.manyFlags, one.table.path = manyFlags{}, t.From
		return r.run(&one)
	})
}
