package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"tablesweep/internal/memory"
	"tablesweep/internal/place"
	"tablesweep/internal/scan/adaptive"
	"tablesweep/internal/storage"
	"tablesweep/internal/sweep"
	"tablesweep/internal/sweep/progress"
	"tablesweep/internal/sweep/verify"
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
		return hinted{usagef("--yes needs --max-deletes N with --mirror"), "N is how many rows may be deleted at most; verify shows how many are extra"}
	case !f.yes && !asks(c):
		return hinted{usagef("stdin is not a terminal; cannot confirm to mirror %s to %s", o.from, o.to), "--yes with --max-deletes N mirrors without asking; verify shows how many rows are extra"}
	case storage.ComparesTime(o.filter):
		return hinted{usagef("--filter compares Timestamp, which is another in each table, so that --mirror would delete equal rows"), "compare a property of your own"}
	}
	return nil
}

// whole refuses an export that lacks rows of the mirror's range: they would be extra.
func (o *copyOptions) whole(m place.Manifest) error {
	own := o.bounds.Range()
	within := own
	if m.Range != nil {
		of := m.Range.Range()
		within = own.Narrow(of.Low, of.High)
	}
	switch {
	case m.Since != nil:
		return usagef("--from %s has only the rows that had changed since %s, so that --mirror would delete all others", o.from, m.Since)
	case m.Select != nil:
		return usagef("--from %s has only the properties %s, so that --mirror would remove all others", o.from, strings.Join(m.Select, ","))
	case m.Filter != "" && m.Filter != o.filter:
		return hinted{usagef("--from %s has only the rows of a filter, so that --mirror would delete all others", o.from), fmt.Sprintf("mirror just those: --filter %q", m.Filter)}
	case storage.RangeFilter(own) != storage.RangeFilter(within):
		return hinted{usagef("--from %s has only the rows of a range, so that --mirror would delete all others", o.from), "mirror just those, by the same --prefix, --after and --before"}
	}
	return nil
}

// mirrorTo makes the destination equal to the source of a sweep.
func (o *copyOptions) mirrorTo(c *cobra.Command, s sweep.Spec, from, to opened) error {
	if e := from.export(); e != nil {
		if err := o.whole(e.Manifest()); err != nil {
			return err
		}
	}
	s.Strategy = adaptive.Strategy{} // many ranges of the destination at a time
	meter, err := o.meter(c)
	if err != nil {
		return err
	}
	memory.Limit()
	if err := probe(c.Context(), s); err != nil {
		return err
	}
	if err := to.table().Create(c.Context()); err != nil {
		return err
	}
	options := verify.MirrorOptions{Options: verify.Options{Options: o.comparison(c, s.Source)}, MaxDeletes: -1}
	options.List = 1
	options.Failed = (&failures{meter: meter, more: "further failed rows are counted, not listed"}).list
	if c.Flags().Changed("max-deletes") {
		options.MaxDeletes = o.maxDeletes
	}
	if !o.yes {
		options.Ask = func(r verify.Result) error {
			meter.Clear()
			meter.Say("compared", compared(r))
			defer meter.Phase("mirroring")
			do := fmt.Sprintf("copy %s to %s and delete %s of it", progress.Plural(r.Missing+r.Different, "row"), to.table(), deletes(r.Extra, options.MaxDeletes))
			return o.ask(c, do, "This can't be undone. ", "", o.to)
		}
	}
	meter.Phase("mirroring")
	r, err := verify.Mirror(c.Context(), s, to.table(), options)
	meter.End()
	switch {
	case errors.Is(err, verify.ErrEmptySource):
		return hinted{err, fmt.Sprintf("%s has %s there; handler delete removes them", to.table(), progress.Plural(r.Extra, "row"))}
	case errors.Is(err, sweep.ErrInterrupted):
		return hinted{err, "run it again: it compares what is there then"}
	case err != nil:
		return err
	}
	text := fmt.Sprintf("compared %s\ncopied %s, deleted %s\n", compared(r.Result), progress.Plural(r.Repaired, "row"), progress.Plural(r.Deleted, "row"))
	if r.Kept > 0 {
		text += fmt.Sprintf("kept %s that changed meanwhile\n", progress.Plural(r.Kept, "extra row"))
	}
	if err := o.print(c, r, "%s", text); err != nil {
		return err
	}
	switch {
	case r.Failed > 0 && r.Left == r.Extra && r.Extra > 0:
		return hinted{failedRows(r.Failed), "so nothing was deleted; remove the cause, and run it again"}
	case r.Failed > 0:
		return failedRows(r.Failed)
	case r.Left > 0:
		return hinted{leftExtra(r.Left), "if they are to go, run it again with a higher limit"}
	}
	return nil
}

// compared says what a comparison found.
func compared(r verify.Result) string {
	return fmt.Sprintf("%s by %s: %d missing, %d extra, %d different", progress.Plural(r.Rows, "row"), progress.Plural(r.Queries, "query"), r.Missing, r.Extra, r.Different)
}

// deletes says how many of the extra rows may be deleted.
func deletes(extra, most int64) string {
	if most >= 0 && most < extra {
		return fmt.Sprintf("%d of %s", most, progress.Plural(extra, "row"))
	}
	return progress.Plural(extra, "row")
}
