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

// call is a call of a command: by a user, or by a command about many tables for one of them.
type call struct {
	job.Process
	ctx      context.Context // ends with the first interrupt
	name     string          // of the command, such as copy
	path     string          // the name behind those of its parents
	toErr    io.Writer
	args     []string
	command  runnable
	accounts map[string]*storage.Account // those that are open, by their connections
	changes  bool                        // the command changes something in storage
	dry      bool                        // it would change it, and does not
	part     *job.Part                   // nil unless it is for one of many tables
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

// text returns the text of an option that is given, "" for one that is not, or that the command lacks.
func (r *call) text(name string) string {
	if o, known := find(r.command.options(), name); known && o.text() != o.byDefault() {
		return o.text()
	}
	return ""
}

// work makes the meter show what the command does, and limits the process's memory, which holds the files. A table of many has its own
// meter.
func (r *call) work(style progress.Style, files ...string) {
	if r.part == nil {
		memory.Limit(files...)
		r.Meter.Use(style)
	}
}

// print prints a result: v as JSON, or else the text. That of one of many tables goes to their summary.
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
