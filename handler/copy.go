package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"tablesweep/internal/action"
	"tablesweep/internal/job"
	"tablesweep/internal/job/sweep"
	"tablesweep/internal/place"
	"tablesweep/internal/problem"
	"tablesweep/internal/storage"
)

type copyOptions struct {
	rowFlags
	pairFlags
	jobFlags
	job.Since
	mapFlags
	csvFlags
	mode      action.Mode
	verify    bool
	compress  place.Compress
	timestamp bool
	overwrite bool
	window    string // the window of --since, as the first run calculated it
}

func (o *copyOptions) options() []option {
	return slices.Concat(o.pairFlags.options(), o.rowFlags.options(), o.jobFlags.options(), o.mapFlags.options(), o.csvFlags.options(), []option{
		o.selectOption(),
		{"since", fixed, &o.Since.Text, nil, "only rows written since this: a time, a duration before now such as 24h, or \"last\" for the last successful copy"},
		{"state", aFile, &o.State, nil, "file that stores when the last success began"},
		{"since-overlap", fixed, &o.Overlap, 5 * time.Minute, "begin this much earlier than the time of --since"},
		{"since-window", fixed, &o.window, nil, ""},
		o.formatOption(),
		choose("mode", fixed, &o.mode, "how to treat rows that already exist: replace, merge, skip, fail", "", action.Modes...),
		{"verify", added, &o.verify, nil, "compare both places afterwards"},
		choose("compress", fixed, &o.compress, "compression of an export's files: zstd, gzip or none", "", place.Compressions...),
		{"overwrite", perRun, &o.overwrite, nil, "with --all or --tables, write over existing rows without asking"},
		{"with-timestamp", fixed, &o.timestamp, nil, "also write each row's Timestamp"},
	})
}

// pairFlags are the flags that name two places.
type pairFlags struct {
	accountFlags
	manyFlags
	from, to                                 location
	connection, fromConnection, toConnection connection
}

func (p *pairFlags) options() []option {
	return slices.Concat(p.accountFlags.options(), p.manyFlags.options(), []option{
		{"from", fixed, &p.from, nil, "the source: a table, or files"},
		{"to", fixed, &p.to, nil, "the destination: a table, or files"},
		connect("connection", &p.connection, storage.HostConnection, "the account of both places"),
		connect("from-connection", &p.fromConnection, storage.HostConnection, "the source's account, if not that of --connection"),
		connect("to-connection", &p.toConnection, storage.HostConnection, "the destination's account, if not that of --connection"),
	})
}

// copyPlaces returns the command "copy" or its alias "export" or "import". refused lists the flags that the alias refuses. These flags are hidden but
// not removed, so that an error can explain the refusal.
func copyPlaces(use, short string, refused ...string) *cobra.Command {
	c := command(use, short, &copyOptions{})
	for _, name := range refused {
		_ = c.Flags().MarkHidden(name)
	}
	return c
}

func (o *copyOptions) run(r *call) error {
	if o.rows != "" && o.verify {
		return usagef("--verify compares whole ranges, so it cannot be combined with --rows")
	}
	r.dry = o.dryRun.on
	if o.Many() {
		phase := map[string]string{"copy": "copying", "export": "exporting", "import": "importing"}[r.name]
		all := job.Tables{Rows: o.Rows, Phase: phase, Failed: o.failed, State: o.State}
		if err := o.manyPlaces(r, &all, o.check); err != nil {
			return err
		}
		switch {
		case o.dryRun.on:
			return o.printDestination(r, &all)
		case all.To.Account != nil && o.mode != action.Skip && o.mode != action.Fail && (o.Since.Text == "" || o.Since.Text == job.LastSuccess):
			all.Overwrites = func(tables []string) error { return o.mayOverwrite(r, all.To.Address(), tables) }
		}
		return r.allTables(&all, o.reportFlags, o.copyTable)
	}
	fromKind, toKind, err := o.kinds()
	if err == nil {
		err = o.check(r, fromKind, toKind)
	}
	if err != nil {
		return err
	}
	m, err := o.mapFlags.open()
	if err != nil {
		return err
	}
	form, err := o.csvFlags.forRows()
	if err != nil {
		return err
	}
	r.changes = toKind == place.KindTable || place.InBlobs(o.to.path)
	from, to, err := o.pairFlags.openPair(r, false)
	if err != nil {
		return err
	}
	if o.isCSV(fromKind, o.from.path) {
		from.CSV = form
	}
	if o.isCSV(toKind, o.to.path) {
		to.CSV = form
	}
	pair := job.PairOptions{Options: o.job(r, o.Rows, from), To: to, AllWorkers: o.Workers != sweep.DefaultWorkers}
	pair.Was.Window = o.window
	if pair.Map = m; m != nil && o.dryRun.on {
		r.announceDestination(to)
		return o.mapFlags.show(r, pair.Options, o.json)
	}
	copying := job.CopyOptions{
		PairOptions: pair, Since: o.Since, Mode: o.mode, Compress: o.compress, Timestamp: o.timestamp, DryRun: o.dryRun.on, Member: r.part != nil,
	}
	j, err := job.Copy(r.ctx, copying)
	if err == nil {
		o.window = j.Window
		r.announceDestination(to)
	}
	if to.Table() == nil {
		return o.export(r, copying, j, err)
	}
	verb := "copied"
	if from.Table() == nil {
		verb = "imported"
	}
	return o.runEach(r, j, err, verb, nil, func() error { return o.verifyCopy(r, copying, j) })
}

// mayOverwrite asks whether to write over existing rows of the destination's tables.
func (o *copyOptions) mayOverwrite(r *call, where string, tables []string) error {
	confirm := yesFlag{o.overwrite}
	return confirm.confirm(r, fmt.Sprintf("write over existing rows of %s in %s (%s)", problem.Plural(len(tables), "table"), where, problem.Named(tables, 10)),
		"Newer rows in the destination get the older content. ",
		"--overwrite writes over them without asking; --mode skip keeps existing rows, and --dry-run shows which tables have rows", "overwrite", "overwrite")
}

// printDestination prints the result of a dry run for many tables: which of them exist in the destination, and which have rows there.
func (o *copyOptions) printDestination(r *call, all *job.Tables) error {
	r.work(o.style)
	all.Process = r.Process
	there, err := all.DestinationStates(r.ctx)
	if err != nil {
		return err
	}
	exist, full := 0, 0
	l := newListing(r.Out, o.json)
	for _, t := range there {
		text := "does not exist"
		switch {
		case t.Rows:
			text = "exists, and has rows"
			exist, full = exist+1, full+1
		case t.Exists:
			text = "exists, and is empty"
			exist++
		}
		l.add(t, t.Table, text)
	}
	if err := l.end(); err != nil || o.json {
		return err
	}
	_, err = fmt.Fprintf(r.Out, "%s would be written; %d of them exist, and %d have rows\n", problem.Plural(len(there), "table"), exist, full)
	return err
}

func (o *copyOptions) copyTable(r *call, t job.Own) error {
	one := *o
	one.manyFlags, one.from.path, one.to.path, one.failed, one.State, one.checkpointFlags = manyFlags{}, t.From, t.To, t.Failed, t.State, checkpointFlags{t.Checkpoint, t.Resume}
	return r.run(&one)
}

// verifyCopy compares both places after a copy with --verify.
func (o *copyOptions) verifyCopy(r *call, copied job.CopyOptions, j *job.Job) error {
	if !o.verify {
		return nil
	}
	found, err := copied.Verify(r.ctx, j)
	if err := o.printComparison(r, found, err); err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	if found.Differences() > 0 {
		return job.ErrDifferent
	}
	return nil
}
