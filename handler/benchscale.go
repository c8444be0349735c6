package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tablesweep/internal/sim/scalebench"
)

const benchScaleHelp = `Runs a copy (or a count) of millions of rows in virtual time: the real handler over
embedded storage, with a model of the cloud's limits around it. Shows how long the copy
takes, what it costs and what limits it, beside the published figures.

The table's rows are computed. The destination checks that each row arrives exactly once and
unchanged; nothing is stored. --facts lists the model's numbers, each with its source or marked
as an assumption. How often the scale controller decides is not documented: --decide and
--step set it, and --decide 30s --step 1 is the slow end.

Prints Markdown. A million rows in partitions of their own take some 75 s of a
processor, and a million in partitions of ten some 25 s.

EXIT STATUS

0 if every row arrived, 1 if not, 2 if a flag is wrong.`

// benchScaleOptions are the flags of the command bench scale.
type benchScaleOptions struct {
	scalebench.Options
	json, facts bool
	plot        string
}

func benchScaleCommand() *cobra.Command {
	o := benchScaleOptions{Options: scalebench.DefaultOptions()}
	c := &cobra.Command{
		Use:   "scale",
		Short: "Copy a table of millions of rows in virtual time",
		Long:  benchScaleHelp,
		Example: `  handler bench scale --rows 3560000 --plot copy.svg
  handler bench scale --rows 35000000 --per-partition 10 --decide 30s --step 1
  handler bench scale --action count --rows 100000000
  handler bench scale --action count --rows 1000000000 --done 900000000 --per-partition 10`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runBenchScale(c, o) },
	}
	f := c.Flags()
	f.Int64Var(&o.Rows, "rows", o.Rows, "rows of the table")
	f.Int64Var(&o.Done, "done", 0, "of a count: rows that the ledger says to be read at the start")
	f.Int64Var(&o.PerPartition, "per-partition", o.PerPartition, "rows of a partition")
	f.IntVar(&o.RowBytes, "row-bytes", o.RowBytes, "bytes of a row's text")
	f.StringVar(&o.Keys, "keys", o.Keys, "how partition keys are spread: "+strings.Join(scalebench.Keys, ", "))
	f.StringVar(&o.Action, "action", o.Action, "copy or count")
	f.StringVar(&o.Strategy, "strategy", o.Strategy, "how to split, as a scan's request has it (default adaptive)")
	f.IntVar(&o.Segments, "segments", o.Segments, "queries an invocation (default as the action has it)")
	f.StringVar(&o.Plan, "plan", o.Plan, "hosting plan: "+strings.Join(scalebench.Plans(), ", "))
	f.IntVar(&o.Memory, "memory", o.Memory, "MB of an instance (default as the plan has it)")
	f.IntVar(&o.Instances, "instances", o.Instances, "most instances in all (default: the plan's)")
	f.DurationVar(&o.Decide, "decide", o.Decide, "time between two decisions of the scale controller (an assumption)")
	f.IntVar(&o.Step, "step", o.Step, "instances that it adds at most in one")
	f.DurationVar(&o.ColdStart, "cold-start", o.ColdStart, "until a new instance takes messages (an assumption)")
	f.Float64Var(&o.Slower, "slower", o.Slower, "every latency times this")
	f.Uint64Var(&o.Seed, "seed", o.Seed, "of what varies from request to request")
	f.BoolVar(&o.json, "json", false, "print the result as JSON")
	f.BoolVar(&o.facts, "facts", false, "print the model's numbers and their sources, and run nothing")
	f.StringVar(&o.plot, "plot", "", "draw rows a second and instances over time into this SVG file")
	return c
}

func runBenchScale(c *cobra.Command, o benchScaleOptions) (err error) {
	if err := o.Check(); err != nil {
		return usageError{err}
	}
	out := c.OutOrStdout()
	if o.facts {
		return scalebench.WriteFacts(out, o.Options)
	}
	plot := io.Discard
	if o.plot != "" { // before the run, which may take half an hour
		f, err := os.Create(o.plot)
		if err != nil {
			return usageError{fmt.Errorf("plot: %w", err)}
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		plot = f
	}
	// Much garbage, and little that stays: a larger heap saves a fifth of the time.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	o.Progress = func(s scalebench.Sample) {
		fmt.Fprintf(c.ErrOrStderr(), "after %v of virtual time: %d rows, %d instances\n", time.Duration(s.Seconds)*time.Second, s.Rows, s.Instances)
	}
	r, err := scalebench.Run(o.Options)
	if err != nil {
		return err
	}
	err = scalebench.WritePlot(plot, r)
	if o.json {
		return errors.Join(err, jsonTo(out).Encode(r))
	}
	return errors.Join(err, scalebench.WriteMarkdown(out, r))
}
