package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"tablesweep/internal/action"
	"tablesweep/internal/place"
	"tablesweep/internal/storage"
	"tablesweep/internal/sweep"
	"tablesweep/internal/sweep/progress"
	"tablesweep/internal/sweep/verify"
)

const copyHelp = `Copy the rows of a table exactly, every property with its type, to another table in any
account and any cloud, or to files, or from files. The destination is created if it is missing. Timestamps are
the service's own and can't be copied. Export and import are other names for copies to files and from
files.

` + placeHelp + `

--mode decides what happens to a row that the destination already has: replace
overwrites it, merge overwrites the properties that the source row has, skip leaves
it, fail leaves it and reports the row as failed. A row with the same content counts as
copied in every mode.

` + sinceHelp + `

` + mirrorHelp + `

` + jobHelp + `

` + manyJobHelp + `

` + connectionHelp

const copyExamples = `  handler copy --from orders --to orders --to-connection ARCHIVE
  handler copy --from orders --to orders2024 --prefix 2024- --mode skip --verify
  handler copy --from orders --to orders --to-connection ARCHIVE --dry-run
  handler copy --from orders --to orders --to-connection ARCHIVE --checkpoint orders.ckpt --failed failed.jsonl
  handler copy --resume orders.ckpt --to-connection ARCHIVE
  handler copy --all --to-connection ARCHIVE --checkpoint archive.ckpt --failed failed
  handler copy --from orders --to orders --to-connection ARCHIVE --rows failed.jsonl
  handler copy --from orders --to orders --to-connection ARCHIVE --since last --state orders.state
  handler copy --from orders --to orders --to-connection ARCHIVE --mirror --yes --max-deletes 1000`

// copyOptions are the flags of the command copy.
type copyOptions struct {
	rowFlags
	pairFlags
	jobFlags
	sinceFlags
	mirrorFlags
	mode      string
	verify    bool
	compress  string
	timestamp bool
	changes   *changedRows // nil without --since
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
	flags.Var(placeValue{&p.from, &p.fromSAS}, "from", "the source: a table, or files; see above")
	flags.Var(placeValue{&p.to, &p.toSAS}, "to", "the destination: a table, or files")
	addConnection(c, flags, &p.fromConnection, "from-connection", storage.HostConnection, "the source's account; see above")
	addConnection(c, flags, &p.toConnection, "to-connection", "", "the destination's account (default the source's)")
}

func copyCommand() *cobra.Command {
	return copyPlaces("copy", "Copy a table, across accounts too", copyHelp, copyExamples)
}

// copyPlaces returns the command copy, or an alias of it. The flags that an alias always refuses are hidden: they answer with what is
// meant in their place.
func copyPlaces(name, short, long, examples string, refused ...string) *cobra.Command {
	var o copyOptions
	c := command(name, short, long, examples, o.run)
	o.pairFlags.add(c)
	o.rowFlags.add(c)
	o.addSelect(c)
	o.jobFlags.add(c)
	o.sinceFlags.add(c)
	o.mirrorFlags.add(c)
	restore := c.PreRunE
	c.PreRunE = func(c *cobra.Command, args []string) error {
		if place.InBlobs(o.resume) {
			return usagef("--resume takes the file that --checkpoint named, not blobs")
		}
		return restore(c, args)
	}
	flags := c.Flags()
	flags.StringVar(&o.mode, "mode", string(action.Replace), "for rows that the destination already has: replace, merge, skip or fail")
	flags.BoolVar(&o.verify, "verify", false, "compare both places afterwards")
	flags.StringVar(&o.compress, "compress", string(place.Zstd), "how the files of a directory are compressed: zstd, gzip or none")
	flags.BoolVar(&o.timestamp, "with-timestamp", false, "write each row's Timestamp, too; an import ignores it")
	_ = c.RegisterFlagCompletionFunc("mode", cobra.FixedCompletions([]string{"replace", "merge", "skip", "fail"}, cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("compress", cobra.FixedCompletions([]string{"zstd", "gzip", "none"}, cobra.ShellCompDirectiveNoFileComp))
	for _, name := range refused {
		_ = flags.MarkHidden(name)
	}
	return c
}

func (o *copyOptions) run(c *cobra.Command) error {
	if !slices.Contains(action.Modes, action.Mode(o.mode)) {
		return usagef("--mode is %q, want one of %v", o.mode, action.Modes)
	}
	if o.rows != "" && o.verify {
		return usagef("--verify is about ranges, not about the rows of --rows")
	}
	if compress := place.Compress(o.compress); !slices.Contains(place.Compressions, compress) {
		return usagef("--compress is %q, want one of %v", o.compress, place.Compressions)
	}
	if o.many() {
		return o.allOf(&manyRun{cmd: c, rows: &o.rowFlags, shown: &o.progressFlag, json: &o.jsonFlag, point: &o.checkpointFlags, phase: "copying"}, o.fits)
	}
	fromKind, toKind, err := o.kinds()
	if err == nil {
		err = o.fits(c, fromKind, toKind)
	}
	if err != nil {
		return err
	}
	from, to, err := o.open(c, false)
	if err != nil {
		return err
	}
	s, err := o.scan(from)
	if err != nil {
		return err
	}
	if o.mirror {
		return o.mirrorTo(c, s, from, to)
	}
	if o.changes, err = o.narrow(c, &s, from, to); err != nil {
		return err
	}
	s.Raw = true
	work := action.Copy{Destination: to.table(), Mode: action.Mode(o.mode)}
	var rows int64 // that the table has now
	switch {
	case to.table() == nil:
		err = o.write(c, s, from, to)
	case from.source == nil:
		err = o.takeLines(c, s, from, work)
	default:
		rows, err = o.copy(c, s, work, from)
	}
	return o.changes.end(err, rows)
}

// copy copies the rows of a sweep to a table, and returns how many there were.
func (o *copyOptions) copy(c *cobra.Command, s sweep.Spec, work action.Copy, from opened) (rows int64, err error) {
	to := work.Destination
	err = o.list(c, &s)
	defer s.Keys.Close()
	if err != nil {
		return 0, err
	}
	if o.dryRun.on {
		i := intent{verb: "copy", writes: action.Transactions, ask: func(ctx context.Context) (string, bool, error) {
			exists, err := to.MayWrite(ctx)
			if err != nil {
				return "", false, fmt.Errorf("try the destination: %w", err)
			}
			return leadsTo(to.String(), "rows", !exists), !exists, nil
		}}
		return 0, o.showIntent(c, s, o.options(c), i)
	}
	j, err := o.start(c, o.options(c), to.Create, s.Source.Address(), to.Address())
	if err != nil {
		return 0, err
	}
	if e := from.export(); e != nil && o.what() == "all rows" {
		j.rows = e.Manifest().Rows
	}
	done, err := j.run(s, work, "copying", "copied")
	if o.verify && (err == nil || exitCode(err) == exitFailedRows) {
		s.Raw = false
		if err := o.verifyCopy(c, s, to, j.meter, done.Rows); err != nil {
			return 0, err
		}
	}
	return done.Rows, err
}

// verifyCopy checks what the copy's mode promises. It ignores rows that only the
// destination has.
func (o *copyOptions) verifyCopy(c *cobra.Command, s sweep.Spec, to storage.Source, m *progress.Meter, rows int64) error {
	options := verify.Options{Options: o.comparison(c, s.Source, to), Depth: verify.DepthOf(action.Mode(o.mode)), AllowExtra: true, Only: o.changes.filter()}
	if s.Filter = o.filter; storage.ComparesTime(s.Filter) { // the destination has Timestamps of its own
		options.Only, s.Filter = storage.And(options.Only, s.Filter), ""
	}
	m.Phase("verifying")
	m.Expect(rows) // others may have come
	r, err := verify.Compare(c.Context(), s, to, options)
	m.End()
	if err := printComparison(c, &o.jsonFlag, r, false, err); err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	if r.Differences() > 0 {
		return errDifferent
	}
	return nil
}
