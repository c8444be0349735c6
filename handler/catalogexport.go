package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"tablesweep/internal/catalog"
)

const catalogExportHelp = `Print all records of a catalog, one JSON object a line, in the order of the first index
key's text; or only those with the given values of index keys. catalog import reads them.
If records move meanwhile so that some may be missing, stderr says so: export again.

` + catalogConnectionHelp

func catalogExportCommand(f *catalogFlags) *cobra.Command {
	return readCommand(f, "export", "Print all records", catalogExportHelp, "  handler catalog export > people.jsonl",
		func(ctx context.Context, c *cobra.Command, cat *catalog.Catalog, q catalog.Lookup) error {
			return printAll(ctx, c, cat, q, false)
		})
}

// readCommand returns a command that does something with the records that its arguments and flags select, all
// if they select none.
func readCommand(f *catalogFlags, name, short, long, examples string,
	do func(context.Context, *cobra.Command, *catalog.Catalog, catalog.Lookup) error) *cobra.Command {
	var s selection
	c := withArgs(name+" [KEY=VALUE…]", short, long, examples, func(c *cobra.Command, args []string) error {
		q, err := s.reading(args)
		if err != nil {
			return err
		}
		return f.with(c, func(ctx context.Context, cat *catalog.Catalog) error {
			if err := exists(ctx, cat); err != nil {
				return err
			}
			return do(ctx, c, cat, q)
		})
	})
	s.add(c)
	return c
}

const catalogCountHelp = `Count the records of a catalog, or those with the given values of index keys. Several values
of one key count together, such as ssn=1 ssn=2; different keys must all match.

` + catalogConnectionHelp

func catalogCountCommand(f *catalogFlags) *cobra.Command {
	var out jsonFlag
	c := readCommand(f, "count", "Count records", catalogCountHelp, "  handler catalog count\n  handler catalog count eid=F314 eid=F315",
		func(ctx context.Context, c *cobra.Command, cat *catalog.Catalog, q catalog.Lookup) error {
			total, err := countAll(ctx, cat, q)
			if err != nil {
				return err
			}
			if total.Changed {
				fmt.Fprintln(c.ErrOrStderr(), "tablesweep: records have moved while they were counted; some may be missing or counted twice")
			}
			return out.print(c, total, "%d\n", total.Count)
		})
	out.add(c, "print the number as JSON")
	return c
}

// countAll counts the records, however long that takes.
func countAll(ctx context.Context, cat *catalog.Catalog, q catalog.Lookup) (catalog.Total, error) {
	for total := (catalog.Total{}); ; {
		part, err := cat.Count(ctx, q)
		if err != nil {
			return total, asUsage(err)
		}
		total.Count += part.Count
		total.Changed = total.Changed || part.Changed
		if q.Cursor = part.Cursor; q.Cursor == "" {
			return total, nil
		}
	}
}
