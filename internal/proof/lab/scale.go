package main

import (
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"tablesweep/internal/proof/lab/scale"
)

const scaleHelp = `Runs a copy (or a count) of millions of rows in virtual time: the real handler over
embedded storage, with a model of the cloud's limits around it. Shows how long the copy
takes, and how near it comes to an account's limit.

The table's rows are computed, and the destination stores nothing. --facts lists the model's numbers, each with its source or marked
as an assumption. How often the scale controller decides is not documented: --decide and
--step set it, and --decide 30s --step 1 is the slow end.

Prints a Markdown table. A million rows in partitions of their own take some 75 s of a
processor, and a million in partitions of ten some 25 s.

EXIT STATUS

0 if every row arrived, 1 if not, 2 if a flag is wrong.`

// scaleOptions are the flags of the command scale.
type scaleOptions struct {
	scale.Options
	facts bool
}

func scaleCommand() *cobra.Command {
	o := scaleOptions{Options: scale.DefaultOptions()}
	c := &cobra.Command{
		Use:   "scale",
		Short: "Copy a table of millions of rows in virtual time",
		Long:  scaleHelp,
		Example: `  lab scale --rows 3560000
  lab scale --rows 35000000 --per-partition 10 --decide 30s --step 1
  lab scale --action count --rows 100000000`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runScale(c, o) },
	}
	f := c.Flags()
	f.Int64Var(&o.Rows, "rows", o.Rows, "number of rows of the table")
	f.Int64Var(&o.PerPartition, "per-partition", o.PerPartition, "number of rows of each partition")
	f.StringVar(&o.Action, "action", o.Action, "copy or count")
	f.DurationVar(&o.Decide, "decide", o.Decide, "time between two decisions of the scale controller (this is an assumption)")
	f.IntVar(&o.Step, "step", o.Step, "maximum number of instances that one decision adds")
	f.BoolVar(&o.facts, "facts", false, "only print the model's numbers and their sources")
	return c
}

func runScale(c *cobra.Command, o scaleOptions) error {
	if err := o.Check(); err != nil {
		return usageError{err}
	}
	out := c.OutOrStdout()
	if o.facts {
		_, err := io.WriteString(out, o.Facts())
		return err
	}
	// The run creates much garbage but retains little, so a larger heap saves a fifth of the time.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	o.Progress = func(took time.Duration, rows int64) {
		fmt.Fprintf(c.ErrOrStderr(), "after %v of virtual time: %d rows have been read\n", took.Round(time.Second), rows)
	}
	r, err := scale.Run(o.Options)
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, r.Markdown())
	return err
}
