package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"tablesweep/internal/catalog"
	"tablesweep/internal/sweep"
	"tablesweep/internal/sweep/progress"
)

const catalogDeleteHelp = `Delete the records that have the value of an index key; with several, all must match.

--dry-run counts the records that would be deleted. Otherwise the command asks before
it starts, unless --yes is given. Interrupted, the same command goes on.

` + catalogConnectionHelp

const catalogDeleteExamples = `  handler catalog delete eid=F314 --dry-run
  handler catalog delete email=faux@example.com --yes
  handler catalog delete --catalog visits eid=F314 --row-to 2025 --yes`

// catalogDeleteOptions are the flags of the command catalog delete.
type catalogDeleteOptions struct {
	*catalogFlags
	selection
	conditionFlag
	yesFlag
	jsonFlag
	dryRun bool
}

func catalogDeleteCommand(f *catalogFlags) *cobra.Command {
	o := catalogDeleteOptions{catalogFlags: f}
	c := withArgs("delete KEY=VALUE…", "Delete records by index keys", catalogDeleteHelp, catalogDeleteExamples, o.run)
	o.selection.add(c)
	o.conditionFlag.add(c, "; there must be one record only")
	o.yesFlag.add(c)
	o.jsonFlag.add(c, "print the number as JSON")
	c.Flags().BoolVar(&o.dryRun, "dry-run", false, "delete nothing; count the records")
	return c
}

func (o *catalogDeleteOptions) run(c *cobra.Command, args []string) error {
	q, err := o.query(args)
	if err != nil {
		return err
	}
	return o.with(c, func(ctx context.Context, cat *catalog.Catalog) error {
		if err := cat.Writable(ctx); err != nil {
			return err
		}
		if o.dryRun {
			records, err := countAll(ctx, cat, q)
			if err != nil {
				return err
			}
			return o.print(c, map[string]int{"records": records.Count}, "would delete %d records of %s\n", records.Count, cat.Index)
		}
		if err := o.askDelete(c, o.what(args), cat.Index.String(), cat.Index.Name()); err != nil {
			return err
		}
		deleted, err := o.deleteAll(c, ctx, cat, q)
		if err != nil {
			return asUsage(err)
		}
		return o.print(c, map[string]int{"deleted": deleted}, "deleted %d records\n", deleted)
	})
}

// deleteAll repeats the deletion until nothing is left, and shows how far it is.
func (o *catalogDeleteOptions) deleteAll(c *cobra.Command, ctx context.Context, cat *catalog.Catalog, q catalog.Lookup) (deleted int, err error) {
	meter := sharedBy(c).meter
	meter.Use(progress.Plain)
	meter.Phase("deleting")
	defer meter.Clear()
	start := time.Now()
	for more := true; more; {
		done, err := cat.Delete(ctx, q, o.condition(), func(records int) {
			rows := sweep.Totals{Rows: int64(deleted + records)}
			meter.Show(sweep.Progress{Totals: rows, Run: rows, Elapsed: time.Since(start)})
		})
		if told := done.Told(); err != nil && told != "" {
			err = fmt.Errorf("%s: %w", told, err)
		}
		if err != nil && deleted > 0 {
			err = fmt.Errorf("after %d records were deleted: %w", deleted, err)
		}
		if err != nil {
			return 0, err
		}
		deleted, more = deleted+done.Records, done.More
	}
	return deleted, nil
}
