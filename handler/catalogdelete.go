package main

import (
	"context"

	"github.com/spf13/cobra"

	"tablesweep/internal/catalog"
)

const catalogDeleteHelp = `Delete the records that have the value of an index key; with several, all must match.

--dry-run counts the records that would be deleted. Otherwise the command asks before
it starts, unless --yes is given.

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
			return o.print(c, map[string]int{"records": records}, "would delete %d records of %s\n", records, cat.Index)
		}
		if err := o.askDelete(c, o.what(args), cat.Index.String(), cat.Index.Name()); err != nil {
			return err
		}
		n, err := cat.Delete(ctx, q, o.condition())
		if err != nil {
			return asUsage(err)
		}
		return o.print(c, map[string]int{"deleted": n}, "deleted %d records\n", n)
	})
}
