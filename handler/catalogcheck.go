package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"tablesweep/internal/catalog"
	"tablesweep/internal/catalog/check"
	"tablesweep/internal/catalog/migrate"
	"tablesweep/internal/input/lines"
	"tablesweep/internal/job"
	"tablesweep/internal/problem"
)

type catalogCheckOptions struct {
	catalogFlags
	lister
	repair bool
}

func (o *catalogCheckOptions) options() []option {
	return slices.Concat(o.catalogFlags.options(), o.lister.options("problems"), []option{
		{"repair", perRun, &o.repair, nil, "repair rows whose records are in the log"},
	})
}

func (o *catalogCheckOptions) run(r *call) error {
	r.changes, o.call = o.repair, r
	ready := needs{exists, (*catalog.Catalog).Prepare} // Prepare creates a missing table for the log
	return o.withCatalog(r, ready, func(ctx context.Context, cat *catalog.Catalog) error {
		sum, err := check.Run(ctx, cat, o.repair, o.found)
		if err := errors.Join(err, o.err); err != nil {
			return err
		}
		return o.summary(sum)
	})
}

// summary prints a check's totals, and returns an error if problems remain.
func (o *catalogCheckOptions) summary(sum check.Result) error {
	err := o.sum(sum, "%s in %s, %s pending: %s, %d repaired; %s of unknown records\n", problem.Plural(sum.Records, "record"), problem.Plural(sum.Rows, "row"),
		problem.Plural(sum.Pending, "write"), problem.Plural(sum.Problems, "problem"), sum.Repaired, problem.Plural(sum.Untracked, "row"))
	if left := sum.Problems - sum.Repaired; err == nil && left > 0 {
		err = fmt.Errorf("problems that remain: %d", left)
		switch {
		case !o.repair && left > sum.Untracked:
			err = job.Hint(err, "--repair repairs the rows whose records are in the log")
		case sum.Untracked > 0:
			err = job.Hint(err, `--repair does not change rows whose records are not in the log; to move these records to another catalog, use "tablesweep catalog export" and "tablesweep catalog import"`)
		}
	}
	return err
}

type catalogMigrateOptions struct {
	catalogFlags
	yesFlag
	lister
	dryRun bool
}

func (o *catalogMigrateOptions) options() []option {
	return slices.Concat(o.catalogFlags.options(), o.yesFlag.options(), o.lister.options("rows and log entries that were not moved"), []option{
		{"dry-run", perRun, &o.dryRun, nil, "make no changes; show the planned changes"},
	})
}

func (o *catalogMigrateOptions) run(r *call) error {
	r.changes, r.dry, o.call = true, o.dryRun, r
	return o.withCatalog(r, needs{exists, recognised, o.confirmMigration}, func(ctx context.Context, cat *catalog.Catalog) error {
		if !o.dryRun {
			// This command changes the schema, so a different schema is not an error.
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

// recognised returns an error if the table has rows, but none of them belongs to a catalog.
func recognised(cat *catalog.Catalog, ctx context.Context) error {
	if err := migrate.Recognise(ctx, cat); err != nil {
		return job.Hint(err, "check --table, --index-keys and --row-key")
	}
	return nil
}

// confirmMigration asks whether to migrate, except in a dry run.
func (o *catalogMigrateOptions) confirmMigration(cat *catalog.Catalog, _ context.Context) error {
	if o.dryRun {
		return nil
	}
	do := fmt.Sprintf("migrate %s to the schema %s", cat.Index, cat.Schema)
	return o.confirm(o.call, do, "", "--dry-run shows the planned changes, and --yes makes them without asking", "the table's name", cat.Index.Name())
}

func (o *catalogMigrateOptions) summary(sum migrate.Result) error {
	verbs := "moved %s, took over %s and %s of another program, removed %d of its rows; left rows or entries as they were: %d\n"
	if o.dryRun {
		verbs = "would move %s, take over %s and %s of another program, and remove %d of its rows; would leave rows or entries as they are: %d\n"
	}
	moved, taken, entries := problem.Plural(sum.Moved, "record"), problem.Plural(sum.Taken, "record"), problem.Plural(sum.Entries, "entry")
	if err := o.sum(sum, verbs, moved, taken, entries, sum.Removed, sum.Left); err != nil {
		return err
	}
	if sum.Left > 0 {
		return failedRows(int64(sum.Left))
	}
	return nil
}

// maxListed is the maximum number of a catalog's findings that are printed without --all.
const maxListed = 100

// lister prints a catalog's findings in the form that its flags choose.
type lister struct {
	call      *call
	json, all bool

	listed int
	err    error
}

// options returns the flags. The argument `noun` names the findings in the flags' descriptions.
func (l *lister) options(noun string) []option {
	return []option{
		{"all", perRun, &l.all, nil, fmt.Sprintf("print all %s, not only the first %d", noun, maxListed)},
		{"json", perRun, &l.json, nil, fmt.Sprintf("print all %s as JSON objects, and the summary as the last object", noun)},
	}
}

func (l *lister) found(f catalog.Finding) {
	text := fmt.Sprintf("PartitionKey %q RowKey %q: %s", f.Partition, f.Row, f.Problem)
	if f.Repaired {
		text += " (repaired)"
	}
	var err error
	switch l.listed++; {
	case l.json:
		err = lines.JSON(l.call.Out).Encode(f)
	case l.all || l.listed <= maxListed:
		_, err = fmt.Fprintln(l.call.Out, text)
	}
	l.err = errors.Join(l.err, err)
}

// sum prints the totals as JSON, or as text in the given format.
func (l *lister) sum(sum any, format string, args ...any) error {
	if l.json {
		return lines.JSON(l.call.Out).Encode(map[string]any{"summary": sum})
	}
	if l.listed > maxListed && !l.all {
		fmt.Fprintf(l.call.toErr, "tablesweep: warning: %d of %d problems are listed; --all lists the others\n", maxListed, l.listed)
	}
	_, err := fmt.Fprintf(l.call.Out, format, args...)
	return err
}
