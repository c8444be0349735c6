package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"tablesweep/internal/catalog"
	"tablesweep/internal/catalog/migrate"
	"tablesweep/internal/input/lines"
	"tablesweep/internal/problem"
)

const catalogMigrateHelp = `Move all records to the given index keys and row key. Take over the tables of the
published program: its rows, and the entries of its log that it has not carried out.
Whatever can't be taken over is printed and stays unchanged, for example rows that
differ only in the case of their row key. Each run prints it again, and tries it again,
until it is taken over, or was deleted. A row is deleted only when its contents are in
their new places, under every key.

--dry-run changes nothing and shows what would be done. Otherwise the command asks
before it starts, unless --yes is given.

Stop other programs that write the tables. Meanwhile the app refuses to write; start it
with the new settings. Before it moves records, the command waits a minute and a half, until
all writers have noticed. It may be interrupted: run it again to continue, or with the
old settings to move everything back.

Exits with 3 if something stayed unchanged, no matter in which run it was first found.

` + catalogConnectionHelp

const catalogMigrateExamples = `  handler catalog migrate --dry-run
  handler catalog migrate --index-keys eid,npi,email --yes`

// catalogMigrateOptions are the flags of the command catalog migrate.
type catalogMigrateOptions struct {
	*catalogFlags
	yesFlag
	dryRun, all, json bool
}

func catalogMigrateCommand(f *catalogFlags) *cobra.Command {
	o := catalogMigrateOptions{catalogFlags: f}
	c := command("migrate", "Move a catalog to other index keys, or take over a published one", catalogMigrateHelp, catalogMigrateExamples, o.run)
	o.yesFlag.add(c)
	flags := c.Flags()
	flags.BoolVar(&o.dryRun, "dry-run", false, "change nothing; show what would be done")
	flags.BoolVar(&o.all, "all", false, fmt.Sprintf("print all that is left as it was, not just %d of it", maxListed))
	flags.BoolVar(&o.json, "json", false, "print all that is left as JSON objects, and the summary as the last one")
	return c
}

func (o *catalogMigrateOptions) run(c *cobra.Command) error {
	return o.with(c, func(ctx context.Context, cat *catalog.Catalog) error {
		if err := exists(ctx, cat); err != nil {
			return err
		}
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
		l := lister{cmd: c, json: o.json, all: o.all}
		sum, err := migrate.Run(ctx, cat, o.dryRun, l.found)
		if err := errors.Join(err, l.err); err != nil {
			return err
		}
		return o.summary(&l, sum)
	})
}

// summary prints a migration's totals.
func (o *catalogMigrateOptions) summary(l *lister, sum migrate.Result) error {
	verbs := "moved %d records, took over %d records and %d entries of another program, removed %d of its rows; %d rows or entries are left as they were\n"
	if o.dryRun {
		verbs = "would move %d records, take over %d records and %d entries of another program, and remove %d of its rows; %d rows or entries would be left as they are\n"
	}
	if err := l.summary(sum, verbs, sum.Moved, sum.Taken, sum.Entries, sum.Removed, sum.Left); err != nil {
		return err
	}
	if sum.Left > 0 {
		return failedRows(int64(sum.Left))
	}
	return nil
}

// maxListed is how many of a catalog's findings are printed, without --all.
const maxListed = 100

// lister prints a catalog's findings.
type lister struct {
	cmd       *cobra.Command
	json, all bool

	listed int
	err    error
}

func (l *lister) found(f catalog.Finding) {
	var err error
	switch l.listed++; {
	case l.json:
		err = l.encode(f)
	case l.all || l.listed <= maxListed:
		_, err = fmt.Fprintln(l.cmd.OutOrStdout(), findingText(f))
	}
	l.err = errors.Join(l.err, err)
}

func (l *lister) encode(v any) error {
	return lines.JSON(l.cmd.OutOrStdout()).Encode(v)
}

// summary prints the totals, as JSON or by the format.
func (l *lister) summary(sum any, format string, args ...any) error {
	if l.json {
		return l.encode(map[string]any{"summary": sum})
	}
	if l.listed > maxListed && !l.all {
		fmt.Fprintf(l.cmd.ErrOrStderr(), "tablesweep: warning: %d of %d problems are listed; --all lists the others\n", maxListed, l.listed)
	}
	_, err := fmt.Fprintf(l.cmd.OutOrStdout(), format, args...)
	return err
}
