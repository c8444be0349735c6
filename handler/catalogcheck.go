package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"tablesweep/internal/catalog"
	"tablesweep/internal/catalog/check"
	"tablesweep/internal/job"
)

const catalogChangesHelp = `Print the changes of a catalog, the newest first, one JSON object a line. They are kept
for 30 days, or as the setting TABLESWEEP_CATALOGS says.

` + catalogConnectionHelp

func catalogChangesCommand(f *catalogFlags) *cobra.Command {
	var p page
	var since string
	c := command("changes", "Print the newest changes", catalogChangesHelp, "  handler catalog changes --top 10", func(c *cobra.Command) error {
		if err := p.check(); err != nil {
			return err
		}
		if _, err := job.ParseSince(since, time.Now()); err != nil {
			return err
		}
		return f.with(c, func(ctx context.Context, cat *catalog.Catalog) error {
			if err := cat.Readable(ctx); err != nil {
				return err
			}
			now, err := cat.Now(ctx)
			if err != nil {
				return err
			}
			from, err := job.ParseSince(since, now) // how long ago is by the service's clock
			if err != nil {
				return err
			}
			changes, next, err := cat.Changes(ctx, p.top, p.cursor, from)
			if err != nil {
				return asUsage(err)
			}
			items := make([]any, len(changes))
			for i, ch := range changes {
				items[i] = ch
			}
			return p.print(c, "changes", items, nil, next, false)
		})
	})
	p.add(c, "changes")
	c.Flags().StringVar(&since, "since", "", "only changes newer than this: a time, a date, or how long ago, such as 2h")
	return c
}

const catalogRecoverHelp = `Complete writes that a crash left unfinished. Every minute, the app completes those
that are older than half a minute. This command completes all of them now, and retries
those that could not be applied.

With --since it also applies the changes since then again. That repairs an index table
that was damaged or restored from an old copy.

` + catalogConnectionHelp

const catalogRecoverExamples = `  handler catalog recover
  handler catalog recover --since 2h
  handler catalog recover --since 2026-02-15T10:30:00Z`

func catalogRecoverCommand(f *catalogFlags) *cobra.Command {
	var since string
	var out jsonFlag
	c := command("recover", "Complete unfinished writes", catalogRecoverHelp, catalogRecoverExamples, func(c *cobra.Command) error {
		from, err := job.ParseSince(since, time.Now())
		if err != nil {
			return err
		}
		return f.with(c, func(ctx context.Context, cat *catalog.Catalog) error {
			r, err := cat.Recover(ctx, from)
			if err != nil {
				return err
			}
			err = out.print(c, r, "applied %d writes, %d can't be applied\n", r.Applied, r.Parked)
			if err == nil && r.Parked > 0 {
				err = job.Hint(fmt.Errorf("%d writes can't be applied", r.Parked), "catalog check lists them with their reasons")
			}
			return err
		})
	})
	c.Flags().StringVar(&since, "since", "", "a time such as 2026-02-15T10:30:00Z, a date, or how long ago, such as 2h")
	out.add(c, "print the result as JSON")
	return c
}

const catalogCheckHelp = `Compare a catalog's index rows with each other and with its log. Prints a line for
each mistake, and a summary.

--repair believes the log: it sets all rows of a record to its newest write, and puts
back what was changed by hand. It leaves what the log does not know, for example after
the log was lost (then run handler catalog migrate first) or restored from a backup:
look at the index then, and choose. --adopt enters these rows into the log,
--remove-unknown deletes them; it asks first, unless --yes is given.

The command may be interrupted, and run again. It refuses a table of another program,
or with other index keys: use handler catalog migrate for those.

Exits with 1 if something stays wrong.

` + catalogConnectionHelp

const catalogCheckExamples = `  handler catalog check
  handler catalog check --repair
  handler catalog check --repair --adopt`

// catalogCheckOptions are the flags of the command catalog check.
type catalogCheckOptions struct {
	*catalogFlags
	yesFlag
	check.Options
	all, json bool
}

func catalogCheckCommand(f *catalogFlags) *cobra.Command {
	o := catalogCheckOptions{catalogFlags: f}
	c := command("check", "Find what is wrong with a catalog, and repair it", catalogCheckHelp, catalogCheckExamples, o.run)
	flags := c.Flags()
	o.yesFlag.add(c)
	flags.BoolVar(&o.Repair, "repair", false, "repair what the log knows")
	flags.BoolVar(&o.Adopt, "adopt", false, "enter rows into the log that it does not know")
	flags.BoolVar(&o.RemoveUnknown, "remove-unknown", false, "delete rows that the log does not know")
	flags.BoolVar(&o.all, "all", false, fmt.Sprintf("print all that is wrong, not just %d of it", maxListed))
	flags.BoolVar(&o.json, "json", false, "print all that is wrong as JSON objects, and the summary as the last one")
	return c
}

func (o *catalogCheckOptions) run(c *cobra.Command) error {
	if o.Adopt && o.RemoveUnknown {
		return usagef("--adopt and --remove-unknown exclude each other")
	}
	return o.with(c, func(ctx context.Context, cat *catalog.Catalog) error {
		if err := exists(ctx, cat); err != nil {
			return err
		}
		if err := cat.Prepare(ctx); err != nil { // it makes the log's table, if there is none
			return err
		}
		if o.RemoveUnknown {
			do := fmt.Sprintf("remove all rows of %s that the log does not know", cat.Index)
			if err := o.ask(c, do, "This can't be undone. ", "without --remove-unknown they are listed, --yes removes them without asking", cat.Index.Name()); err != nil {
				return err
			}
		}
		l := lister{cmd: c, json: o.json, all: o.all}
		sum, err := check.Run(ctx, cat, o.Options, l.found)
		if err := errors.Join(err, l.err); err != nil {
			return err
		}
		return o.summary(&l, sum)
	})
}

func findingText(f catalog.Finding) string {
	text := fmt.Sprintf("PartitionKey %q RowKey %q: %s", f.Partition, f.Row, f.Problem)
	if f.Repaired {
		text += " (repaired)"
	}
	return text
}

// summary prints a check's totals, and returns an error if something stays wrong.
func (o *catalogCheckOptions) summary(l *lister, sum check.Result) error {
	err := l.summary(sum, "%d records in %d rows, %d writes pending: %d problems, %d repaired; %d rows of unknown records\n",
		sum.Records, sum.Rows, sum.Pending, sum.Problems, sum.Repaired, sum.Untracked)
	if left := sum.Problems - sum.Repaired; err == nil && left > 0 {
		err = fmt.Errorf("%d problems are left", left)
		switch {
		case sum.Untracked > 0 && !o.RemoveUnknown:
			err = job.Hint(err, "--adopt enters rows that the log does not know, --remove-unknown deletes what is left of them")
		case !o.Repair:
			err = job.Hint(err, "--repair repairs what the log knows")
		}
	}
	return err
}
