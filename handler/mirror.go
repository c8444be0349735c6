package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"tablesweep/internal/job"
	"tablesweep/internal/sweep/progress"
)

const mirrorHelp = `--mirror makes the destination equal to the source: it compares them, shows how many rows are
missing, different and extra, asks, copies the missing and different rows, and then deletes the
extra ones. --yes does not ask, and needs --max-deletes N; at N it stops deleting, with the exit status 3.
Rows outside --prefix, --after, --before and --filter stay as they are. Nothing is deleted if the
source has no row there, or if a row could not be copied. An extra row that was written
since it was compared stays, and so does one that the source has by then. Run an interrupted mirror again.`

// mirrorFlags are the flags of a copy that deletes what only the destination has.
type mirrorFlags struct {
	yesFlag
	mirror     bool
	maxDeletes int64
}

func (f *mirrorFlags) add(c *cobra.Command) {
	f.yesFlag.add(c)
	flags := c.Flags()
	flags.BoolVar(&f.mirror, "mirror", false, "make the destination equal to the source: delete its extra rows, too")
	flags.Int64Var(&f.maxDeletes, "max-deletes", 0, "most rows that --mirror deletes")
}

// check refuses a mirror that nobody can be asked about, or whose rows can't be told.
func (f *mirrorFlags) check(c *cobra.Command, o *copyOptions) error {
	if !f.mirror {
		return nil
	}
	switch {
	case f.maxDeletes < 0:
		return usagef("--max-deletes is %d, want 0 or more", f.maxDeletes)
	case f.yes && !c.Flags().Changed("max-deletes"):
		return job.Hint(usagef("--yes needs --max-deletes N with --mirror"), "N is how many rows may be deleted at most; verify shows how many are extra")
	case !f.yes && !asks(c):
		return job.Hint(usagef("stdin is not a terminal; cannot confirm to mirror %s to %s", o.from, o.to), "--yes with --max-deletes N mirrors without asking; verify shows how many rows are extra")
	}
	return nil
}

// mirrorTo makes the destination equal to the source.
func (o *copyOptions) mirrorTo(c *cobra.Command, pair job.PairOptions) error {
	options := job.MirrorOptions{PairOptions: pair, MaxDeletes: -1}
	if c.Flags().Changed("max-deletes") {
		options.MaxDeletes = o.maxDeletes
	}
	if !o.yes {
		options.Ask = func(do string) error { return o.ask(c, do, "This can't be undone. ", "", o.to) }
	}
	r, err := job.Mirror(c.Context(), options)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("compared %s\ncopied %s, deleted %s\n", job.Compared(r.Result), progress.Plural(r.Repaired, "row"), progress.Plural(r.Deleted, "row"))
	if r.Kept > 0 {
		text += fmt.Sprintf("kept %s that changed meanwhile\n", progress.Plural(r.Kept, "extra row"))
	}
	if err := o.print(c, r, "%s", text); err != nil {
		return err
	}
	switch {
	case r.Failed > 0 && r.Left == r.Extra && r.Extra > 0:
		return job.Hint(failedRows(r.Failed), "so nothing was deleted; remove the cause, and run it again")
	case r.Failed > 0:
		return failedRows(r.Failed)
	case r.Left > 0:
		return job.Hint(partlyf("--max-deletes: %s left", progress.Plural(r.Left, "extra row")), "if they are to go, run it again with a higher limit")
	}
	return nil
}
