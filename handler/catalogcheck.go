package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"tablesweep/internal/catalog"
	"tablesweep/internal/catalog/check"
	"tablesweep/internal/catalog/migrate"
	"tablesweep/internal/input/lines"
	"tablesweep/internal/job"
	"tablesweep/internal/problem"
)

func catalogRecoverCommand(f *catalogFlags) *cobra.Command {
	var since string
	var out jsonFlag
	c := command("recover", "Complete unfinished writes", func(c *cobra.Command) error {
		from, err := job.ParseSince(since, time.Now())
		if err != nil {
			return err
		}
		return f.with(c, nil, func(ctx context.Context, cat *catalog.Catalog) error {
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

// catalogCheckOptions are the flags of the command catalog check.
type catalogCheckOptions struct {
	*catalogFlags
	yesFlag
	check.Options
	lister
}

func catalogCheckCommand(f *catalogFlags) *cobra.Command {
	o := catalogCheckOptions{catalogFlags: f}
	c := command("check", "Find what is wrong with a catalog, and repair it", o.run)
	flags := c.Flags()
	o.yesFlag.add(c)
	flags.BoolVar(&o.Repair, "repair", false, "repair what the log knows")
	flags.BoolVar(&o.Adopt, "adopt", false, "enter rows into the log that it does not know")
	flags.BoolVar(&o.RemoveUnknown, "remove-unknown", false, "delete rows that the log does not know")
	o.lister.add(c, "is wrong", "")
	return c
}

func (o *catalogCheckOptions) run(c *cobra.Command) error {
	if o.Adopt && o.RemoveUnknown {
		return usagef("--adopt and --remove-unknown exclude each other")
	}
	ready := needs{exists, (*catalog.Catalog).Prepare} // which makes the log's table, if there is none
	return o.with(c, ready, func(ctx context.Context, cat *catalog.Catalog) error {
		if o.RemoveUnknown {
			do := fmt.Sprintf("remove all rows of %s that the log does not know", cat.Index)
			if err := o.ask(c, do, "This can't be undone. ", "without --remove-unknown they are listed, --yes removes them without asking", cat.Index.Name()); err != nil {
				return err
			}
		}
		sum, err := check.Run(ctx, cat, o.Options, o.found)
		if err := errors.Join(err, o.err); err != nil {
			return err
		}
		return o.summary(sum)
	})
}

// summary prints a check's totals, and returns an error if something stays wrong.
func (o *catalogCheckOptions) summary(sum check.Result) error {
	err := o.sum(sum, "%d records in %d rows, %d writes pending: %d problems, %d repaired; %d rows of unknown records\n",
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

// catalogMigrateOptions are the flags of the command catalog migrate.
type catalogMigrateOptions struct {
	*catalogFlags
	yesFlag
	lister
	dryRun bool
}

func catalogMigrateCommand(f *catalogFlags) *cobra.Command {
	o := catalogMigrateOptions{catalogFlags: f}
	c := command("migrate", "Move a catalog to other index keys, or take over a published one", o.run)
	o.yesFlag.add(c)
	o.lister.add(c, "is left", " as it was")
	c.Flags().BoolVar(&o.dryRun, "dry-run", false, "change nothing; show what would be done")
	return c
}

func (o *catalogMigrateOptions) run(c *cobra.Command) error {
	return o.with(c, needs{exists}, func(ctx context.Context, cat *catalog.Catalog) error {
		if !o.dryRun {
			do := fmt.Sprintf("migrate %s to the schema %s", cat.Index, cat.Schema)
			if err := o.ask(c, do, "", "--dry-run shows what would be done, --yes does it without asking", cat.Index.Name()); err != nil {
				return err
			}
			// Another schema is no error here: this command changes it.
			var p *problem.Error
			if err := cat.Prepare(ctx); err != nil && (!errors.As(err, &p) || p.Kind != problem.Conflict && p.Kind != problem.Moving) {
				return err
			}
		}
		sum, err := migrate.Run(ctx, cat, o.dryRun, o.found)
		if err := errors.Join(err, o.err); err != nil {
			return err
		}
		return o.summary(sum)
	})
}

// summary prints a migration's totals.
func (o *catalogMigrateOptions) summary(sum migrate.Result) error {
	verbs := "moved %d records, took over %d records and %d entries of another program, removed %d of its rows; %d rows or entries are left as they were\n"
	if o.dryRun {
		verbs = "would move %d records, take over %d records and %d entries of another program, and remove %d of its rows; %d rows or entries would be left as they are\n"
	}
	if err := o.sum(sum, verbs, sum.Moved, sum.Taken, sum.Entries, sum.Removed, sum.Left); err != nil {
		return err
	}
	if sum.Left > 0 {
		return failedRows(int64(sum.Left))
	}
	return nil
}

// maxListed is how many of a catalog's findings are printed, without --all.
const maxListed = 100

// lister prints a catalog's findings. It has the flags that say how.
type lister struct {
	cmd       *cobra.Command
	json, all bool

	listed int
	err    error
}

// add adds the flags. what describes the findings, with more words where there is room.
func (l *lister) add(c *cobra.Command, what, more string) {
	l.cmd = c
	c.Flags().BoolVar(&l.all, "all", false, fmt.Sprintf("print all that %s%s, not just %d of it", what, more, maxListed))
	c.Flags().BoolVar(&l.json, "json", false, fmt.Sprintf("print all that %s as JSON objects, and the summary as the last one", what))
}

func (l *lister) found(f catalog.Finding) {
	text := fmt.Sprintf("PartitionKey %q RowKey %q: %s", f.Partition, f.Row, f.Problem)
	if f.Repaired {
		text += " (repaired)"
	}
	var err error
	switch l.listed++; {
	case l.json:
		err = lines.JSON(l.cmd.OutOrStdout()).Encode(f)
	case l.all || l.listed <= maxListed:
		_, err = fmt.Fprintln(l.cmd.OutOrStdout(), text)
	}
	l.err = errors.Join(l.err, err)
}

// sum prints the totals, as JSON or by the format.
func (l *lister) sum(sum any, format string, args ...any) error {
	if l.json {
		return lines.JSON(l.cmd.OutOrStdout()).Encode(map[string]any{"summary": sum})
	}
	if l.listed > maxListed && !l.all {
		fmt.Fprintf(l.cmd.ErrOrStderr(), "tablesweep: warning: %d of %d problems are listed; --all lists the others\n", maxListed, l.listed)
	}
	_, err := fmt.Fprintf(l.cmd.OutOrStdout(), format, args...)
	return err
}
