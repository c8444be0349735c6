package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"tablesweep/internal/action"
	"tablesweep/internal/storage"
	"tablesweep/internal/sweep"
	"tablesweep/internal/sweep/progress"
	"tablesweep/internal/sweep/verify"
)

const copyHelp = `Copy the rows of a table exactly, every property with its type, to another table in any
account and any cloud. The destination is created if it is missing. Timestamps are
the service's own and can't be copied.

--mode decides what happens to a row that the destination already has: replace
overwrites it, merge overwrites the properties that the source row has, skip leaves
it, fail leaves it and reports the row as failed. A row with the same content counts as
copied in every mode.

` + jobHelp + `

` + connectionHelp

const copyExamples = `  handler copy --from orders --to orders --to-connection ARCHIVE
  handler copy --from orders --to orders2024 --prefix 2024- --mode skip --verify
  handler copy --from orders --to orders --to-connection ARCHIVE --dry-run
  handler copy --from orders --to orders --to-connection ARCHIVE --checkpoint orders.ckpt --failed failed.jsonl
  handler copy --resume orders.ckpt
  handler copy --from orders --to orders --to-connection ARCHIVE --rows failed.jsonl`

// copyOptions are the flags of the command copy.
type copyOptions struct {
	rowFlags
	pairFlags
	jobFlags
	mode   string
	verify bool
}

// pairFlags name two tables.
type pairFlags struct {
	accountFlags
	from, to, fromConnection, toConnection string
}

func (p *pairFlags) add(c *cobra.Command) {
	flags := c.Flags()
	p.addPatience(flags)
	flags.StringVar(&p.from, "from", "", "the source table")
	flags.StringVar(&p.to, "to", "", "the destination table")
	addConnection(c, flags, &p.fromConnection, "from-connection", storage.HostConnection, "the source's account; see above")
	addConnection(c, flags, &p.toConnection, "to-connection", "", "the destination's account (default the source's)")
}

// open opens both tables, which must differ.
func (p *pairFlags) open(c *cobra.Command) (from, to *storage.Table, err error) {
	source, err := p.openAccount(c, "from-connection", p.fromConnection)
	if err != nil {
		return nil, nil, err
	}
	destination := source
	if p.toConnection != "" {
		if destination, err = p.openAccount(c, "to-connection", p.toConnection); err != nil {
			return nil, nil, err
		}
	}
	if from, err = openTable(source, "from", p.from); err != nil {
		return nil, nil, err
	}
	if to, err = openTable(destination, "to", p.to); err != nil {
		return nil, nil, err
	}
	if from.Same(to) {
		return nil, nil, usagef("--from and --to are the same table of the same account")
	}
	return from, to, nil
}

func copyCommand() *cobra.Command {
	var o copyOptions
	c := command("copy", "Copy a table, across accounts too", copyHelp, copyExamples, o.run)
	o.pairFlags.add(c)
	o.rowFlags.add(c)
	o.addSelect(c)
	o.jobFlags.add(c)
	flags := c.Flags()
	flags.StringVar(&o.mode, "mode", string(action.Replace), "for rows that the destination already has: replace, merge, skip or fail")
	flags.BoolVar(&o.verify, "verify", false, "compare both tables afterwards")
	_ = c.RegisterFlagCompletionFunc("mode", cobra.FixedCompletions([]string{"replace", "merge", "skip", "fail"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (o *copyOptions) run(c *cobra.Command) error {
	if !slices.Contains(action.Modes, action.Mode(o.mode)) {
		return usagef("--mode is %q, want one of %v", o.mode, action.Modes)
	}
	if o.rows != "" && o.verify {
		return usagef("--verify is about ranges, not about the rows of --rows")
	}
	from, to, err := o.open(c)
	if err != nil {
		return err
	}
	s, err := o.scan(from)
	if err != nil {
		return err
	}
	err = o.list(c, &s)
	defer s.Keys.Close()
	if err != nil {
		return err
	}
	if o.dryRun.on {
		i := intent{verb: "copy", writes: action.Transactions, ask: func(ctx context.Context) (string, bool, error) {
			exists, err := to.MayWrite(ctx)
			if err != nil {
				return "", false, fmt.Errorf("try the destination: %w", err)
			}
			return leadsTo(to.String(), "rows", !exists), !exists, nil
		}}
		return o.showIntent(c, s, o.workers, i)
	}
	j, err := o.start(c, o.workers, to.Create, from.Address(), to.Address())
	if err != nil {
		return err
	}
	raw := s
	raw.Raw = true
	done, err := j.run(raw, action.Copy{Destination: to, Mode: action.Mode(o.mode)}, "copying", "copied")
	if o.verify && (err == nil || exitCode(err) == exitFailedRows) {
		if err := o.verifyCopy(c, s, to, j.meter, done.Rows); err != nil {
			return err
		}
	}
	return err
}

// probe reads one row of the source, so that a missing table or a bad filter is reported
// before anything is created.
func probe(ctx context.Context, s sweep.Spec) error {
	_, err := s.Table.Query(ctx, storage.Query{Range: s.Bounds.Range(), Filter: s.Filter, Select: s.Select, Top: 1})
	if s.Filter != "" && storage.HasCode(err, "InvalidInput") {
		return hinted{usagef("--filter: %w", err), "the Table service's filters are OData: eq, ne, gt, ge, lt, le, and, or, not; strings in single quotes"}
	}
	if err != nil {
		return fmt.Errorf("read the source: %w", err)
	}
	return nil
}

// verifyCopy checks what the copy's mode promises. It ignores rows that only the
// destination has.
func (o *copyOptions) verifyCopy(c *cobra.Command, s sweep.Spec, to *storage.Table, m *progress.Meter, rows int64) error {
	options := verify.Options{Options: sweepOptions(c, o.workers), Depth: verify.DepthOf(action.Mode(o.mode)), AllowExtra: true}
	m.Phase("verifying")
	m.Expect(rows) // others may have come
	r, err := verify.Tables(c.Context(), s, to, options)
	m.End()
	if err := printComparison(c, &o.jsonFlag, r, false, err); err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	if r.Differences() > 0 {
		return errDifferent
	}
	return nil
}
