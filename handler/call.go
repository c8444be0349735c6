package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"tablesweep/internal/input/lines"
	"tablesweep/internal/job"
	"tablesweep/internal/job/progress"
	"tablesweep/internal/storage"
	"tablesweep/internal/task/memory"
)

// call is a user's call of a command. A call for many tables makes a further call for each table.
type call struct {
	job.Process
	ctx      context.Context // ends with the first interrupt
	name     string          // the command's name, such as copy
	path     string          // the command's name after its parents' names, such as tablesweep catalog export
	toErr    io.Writer
	args     []string
	command  runnable
	accounts map[string]*storage.Account // the open accounts, by their connections
	changes  bool                        // the command changes something in storage
	dry      bool                        // a dry run, which only reports what the command would change
	part     *job.Part                   // nil unless the call is for one of many tables
	point    job.Checkpoint
}

// callOf returns a user's call of a command.
func callOf(c *cobra.Command, args []string) *call {
	t := sharedBy(c)
	return &call{
		Process: job.Process{Meter: t.meter, Abort: t.second.Done(), In: c.InOrStdin(), Out: c.OutOrStdout(), Program: "tablesweep " + thisBuild().Version, FileBytes: t.fileBytes,
			Memory: memory.NewBudget(memory.Command)},
		ctx: c.Context(), name: c.Name(), path: c.CommandPath(), toErr: c.ErrOrStderr(), args: args, accounts: map[string]*storage.Account{},
	}
}

// text returns the text of an option, or "" if the option is not given or the command has no such option.
func (r *call) text(name string) string {
	if o, known := find(r.command.options(), name); known && o.text() != o.byDefault() {
		return o.text()
	}
	return ""
}

// work sets the meter's style, and limits the process's memory. The limit includes room for the given checkpoint files. If the call is for one
// of many tables, work does nothing, because work was called once for all tables.
func (r *call) work(style progress.Style, files ...string) {
	if r.part == nil {
		memory.Limit(files...)
		r.Meter.Use(style)
	}
}

// print prints v as JSON, or prints the text. If the call is for one of many tables, print only adds v to the summary.
func (r *call) print(asJSON bool, v any, text string, args ...any) error {
	switch {
	case r.part != nil:
		r.part.Result = v
		return nil
	case asJSON:
		return lines.JSON(r.Out).Encode(v)
	}
	_, err := fmt.Fprintf(r.Out, text, args...)
	return err
}
