package main

import (
	"github.com/spf13/cobra"

	"tablesweep/internal/job"
	"tablesweep/internal/sweep/progress"
)

// countOptions are the flags of the command count.
type countOptions struct {
	sourceFlags
	manyFlags
	reportFlags
}

func countCommand() *cobra.Command {
	var o countOptions
	c := command("count", "Count the rows of a table", o.run)
	o.sourceFlags.add(c)
	o.manyFlags.add(c)
	o.reportFlags.add(c, progress.Auto, "print the count and what it took as JSON")
	return c
}

func (o *countOptions) run(c *cobra.Command) error {
	if o.many() {
		return o.countMany(c)
	}
	from, err := o.source(c)
	if err != nil {
		return err
	}
	totals, err := job.Count(c.Context(), job.Options{Process: o.process(c), Rows: o.Rows, From: from})
	if err != nil {
		return err
	}
	return o.print(c, statsOf(totals), "%d\n", totals.Rows)
}

// countMany counts the rows of many tables.
func (o *countOptions) countMany(c *cobra.Command) error {
	from, err := o.openHome(c, "table", o.table, o.tableSAS, "connection", o.connection)
	if err == nil && from.Local() && c.Flags().Changed("connection") {
		err = usagef("--connection does not fit --table %s, which is a directory", o.table)
	}
	if err != nil {
		return err
	}
	return (&manyRun{
		Tables: job.Tables{Rows: o.Rows, Phase: "counting"}, cmd: c, choice: o.manyFlags, report: &o.reportFlags, point: &checkpointFlags{}, from: from,
		do: func(c *cobra.Command, t ofTable) error {
			one := *o
			one.manyFlags, one.table = manyFlags{}, t.from
			return one.run(c)
		},
	}).run()
}
