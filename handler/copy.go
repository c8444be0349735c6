package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"tablesweep/internal/action"
	"tablesweep/internal/job"
	"tablesweep/internal/place"
	"tablesweep/internal/storage"
	"tablesweep/internal/sweep/progress"
)

// copyOptions are the flags of the command copy.
type copyOptions struct {
	rowFlags
	pairFlags
	jobFlags
	job.Since
	mirrorFlags
	mapFlags
	csvFlags
	mode      action.Mode
	verify    bool
	compress  place.Compress
	timestamp bool
}

// pairFlags name two places.
type pairFlags struct {
	accountFlags
	manyFlags
	from, to, fromConnection, toConnection string
	fromSAS, toSAS                         string
}

func (p *pairFlags) add(c *cobra.Command) {
	flags := c.Flags()
	p.addPatience(flags)
	p.manyFlags.add(c)
	flags.Var(placeValue{&p.from, &p.fromSAS}, "from", "the source: a table, or files")
	flags.Var(placeValue{&p.to, &p.toSAS}, "to", "the destination: a table, or files")
	addConnection(c, flags, &p.fromConnection, "from-connection", storage.HostConnection, "the source's account")
	addConnection(c, flags, &p.toConnection, "to-connection", "", "the destination's account (default the source's)")
}

func copyCommand() *cobra.Command {
	return copyPlaces("copy", "Copy a table, across accounts too")
}

// copyPlaces returns the command copy, or an alias of it. The flags that an alias always refuses are hidden: they answer with what is
// meant in their place.
func copyPlaces(name, short string, refused ...string) *cobra.Command {
	var o copyOptions
	c := command(name, short, o.run)
	o.pairFlags.add(c)
	o.rowFlags.add(c)
	o.addSelect(c)
	o.jobFlags.add(c)
	addSince(c, &o.Since, &o.was.Window)
	o.mirrorFlags.add(c)
	o.mapFlags.add(c)
	o.csvFlags.add(c)
	o.addFormat(c)
	c.PreRunE = func(*cobra.Command, []string) error {
		if place.InBlobs(o.resume) {
			return usagef("--resume takes the file that --checkpoint named, not blobs")
		}
		return nil
	}
	flags := c.Flags()
	addChoice(c, &o.mode, "mode", "what a row does to one with its key: replace, merge, skip, fail", "", action.Modes...)
	flags.BoolVar(&o.verify, "verify", false, "compare both places afterwards")
	addChoice(c, &o.compress, "compress", "compression of an export's files: zstd, gzip or none", "", place.Compressions...)
	flags.BoolVar(&o.timestamp, "with-timestamp", false, "write each row's Timestamp, too")
	for _, name := range refused {
		_ = flags.MarkHidden(name)
	}
	return c
}

func (o *copyOptions) run(c *cobra.Command) error {
	if o.rows != "" && o.verify {
		return usagef("--verify is about ranges, not about the rows of --rows")
	}
	if o.many() {
		return o.allOf(&manyRun{Tables: job.Tables{Rows: o.Rows, Phase: map[string]string{"copy": "copying", "export": "exporting", "import": "importing"}[c.Name()]}, cmd: c, report: &o.reportFlags, point: &o.checkpointFlags, do: o.one}, o.check)
	}
	fromKind, toKind, err := o.kinds()
	if err == nil {
		err = o.check(c, fromKind, toKind)
	}
	if err != nil {
		return err
	}
	m, err := o.mapFlags.open(c)
	if err != nil {
		return err
	}
	form, err := o.csvFlags.of()
	if err != nil {
		return err
	}
	from, to, err := o.pairFlags.open(c, false, o.resume != "")
	if err != nil {
		return err
	}
	if o.is(fromKind, o.from) {
		from.CSV = form
	}
	if o.is(toKind, o.to) {
		to.CSV = form
	}
	pair := job.PairOptions{Options: o.options(c, o.Rows, from), To: to, AllWorkers: c.Flags().Changed("workers")}
	if pair.Map = m; o.preview > 0 {
		return o.mapFlags.show(c, pair.Options, o.json)
	}
	if o.mirror {
		return o.mirrorTo(c, pair)
	}
	copying := job.CopyOptions{
		PairOptions: pair, Since: o.Since, Mode: o.mode, Compress: o.compress, Timestamp: o.timestamp, Look: o.dryRun.on,
	}
	j, err := job.Copy(c.Context(), copying)
	if to.Table() == nil {
		return o.export(c, copying, j, err)
	}
	verb := "copied"
	if from.Table() == nil {
		verb = "imported"
	}
	return o.each(c, j, err, verb, nil, func() error { return o.verifyCopy(c, copying, j) })
}

// one copies one of many tables.
func (o *copyOptions) one(c *cobra.Command, t ofTable) error {
	one := *o
	one.manyFlags, one.from, one.to, one.failed, one.State, one.checkpointFlags = manyFlags{}, t.from, t.to, t.failed, t.state, t.point
	return one.during(c, func() error { return one.run(c) })
}

// verifyCopy compares both places after a copy, if that was asked for.
func (o *copyOptions) verifyCopy(c *cobra.Command, copied job.CopyOptions, j *job.Job) error {
	if !o.verify {
		return nil
	}
	r, err := copied.Verify(c.Context(), j)
	if err := o.printComparison(c, r, false, err); err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	if r.Differences() > 0 {
		return job.ErrDifferent
	}
	return nil
}

// windowFlag is the flag of the window of --since in records: the first run decides it.
const windowFlag = "since-window"

func addSince(c *cobra.Command, f *job.Since, window *string) {
	flags := c.Flags()
	flags.StringVar(&f.Text, "since", "", "only rows written since a time, for so long, such as 24h, or since the last success: last")
	flags.StringVar(&f.State, "state", "", "file that keeps when the last success began")
	flags.DurationVar(&f.Overlap, "overlap", 5*time.Minute, "how much earlier --since begins")
	flags.StringVar(window, windowFlag, "", "")
	_ = flags.MarkHidden(windowFlag)
}

// mirrorFlags are the flags of a copy that deletes what only the destination has.
type mirrorFlags struct {
	yesFlag
	mirror     bool
	maxDeletes int64
}

func (f *mirrorFlags) add(c *cobra.Command) {
	f.yesFlag.add(c)
	flags := c.Flags()
	flags.BoolVar(&f.mirror, "mirror", false, "copy what differs, and delete extra rows")
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
