package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"tablesweep/internal/catalog"
	"tablesweep/internal/input/lines"
	"tablesweep/internal/record"
)

const catalogQueryHelp = `Find records by index keys. Different keys must all match; of several values of one key,
any may match. Prints one JSON object a line, sorted by the row key.

If there are more records than --top, stderr shows the cursor of the next ones.
--all prints all of them. If records move meanwhile so that some may be missing, stderr says so.

` + catalogConnectionHelp

const catalogQueryExamples = `  handler catalog query eid=F314
  handler catalog query eid=F314 npi=1414213562 --json
  handler catalog query --catalog visits eid=F314 --row-from 2026-01 --row-to 2026-02 --all`

// catalogQueryOptions are the flags of the command catalog query.
type catalogQueryOptions struct {
	*catalogFlags
	selection
	page
	all bool
}

// page has the flags that choose a page of records or changes.
type page struct {
	top    int
	cursor string
	json   bool
}

func (p *page) add(c *cobra.Command, what string) {
	c.Flags().IntVar(&p.top, "top", catalog.DefaultTop, fmt.Sprintf("most %s printed, 1 to %d", what, catalog.MaxTop))
	c.Flags().StringVar(&p.cursor, "cursor", "", "go on where the command that printed this cursor ended")
	c.Flags().BoolVar(&p.json, "json", false, "print one JSON object with all of them and the cursor")
}

// check returns an error if top is not possible.
func (p *page) check() error {
	if p.top < 1 || p.top > catalog.MaxTop {
		return usagef("--top is %d, want 1 to %d", p.top, catalog.MaxTop)
	}
	return nil
}

// print prints a page: the items under that name, with ids and ETags if they are records,
// the cursor, and whether records may be missing which have moved meanwhile.
func (p *page) print(c *cobra.Command, name string, items []any, meta []catalog.Meta, cursor string, changed bool) error {
	out := lines.JSON(c.OutOrStdout())
	warnChanged(c, changed)
	if p.json {
		answer := map[string]any{name: append([]any{}, items...)}
		if meta != nil {
			answer["meta"] = meta
		}
		if cursor != "" {
			answer["cursor"] = cursor
		}
		if changed {
			answer["changed"] = true
		}
		return out.Encode(answer)
	}
	for _, item := range items {
		if err := out.Encode(item); err != nil {
			return err
		}
	}
	if cursor != "" {
		fmt.Fprintf(c.ErrOrStderr(), "tablesweep: there are more %s: --cursor %s\n", name, cursor)
	}
	return nil
}

// warnChanged says that what was read may be incomplete.
func warnChanged(c *cobra.Command, changed bool) {
	if changed {
		fmt.Fprintln(c.ErrOrStderr(), "tablesweep: records have moved since the first page was read, and some of them may be missing; read again for all")
	}
}

func catalogQueryCommand(f *catalogFlags) *cobra.Command {
	o := catalogQueryOptions{catalogFlags: f}
	c := withArgs("query KEY=VALUE…", "Find records by index keys", catalogQueryHelp, catalogQueryExamples, o.run)
	o.selection.add(c)
	o.page.add(c, "records")
	c.Flags().BoolVar(&o.all, "all", false, "print all of them")
	return c
}

func (o *catalogQueryOptions) run(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usagef("want an index key and its value, such as eid=F314; catalog export prints all records")
	}
	q, err := o.reading(args)
	if err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	if o.all && c.Flags().Changed("top") {
		return usagef("--top and --all exclude each other")
	}
	q.Top, q.Cursor = o.top, o.cursor
	return o.with(c, func(ctx context.Context, cat *catalog.Catalog) error {
		if err := cat.Readable(ctx); err != nil {
			return err
		}
		if o.all {
			return printAll(ctx, c, cat, q, o.json)
		}
		found, err := cat.Find(ctx, q)
		if err != nil {
			return asUsage(err)
		}
		items := make([]any, len(found.Records))
		for i, r := range found.Records {
			items[i] = r
		}
		return o.print(c, "records", items, found.Meta, found.Cursor, found.Changed)
	})
}

// printAll prints all records, holding one page of them at a time: one a line, or one JSON object.
func printAll(ctx context.Context, c *cobra.Command, cat *catalog.Catalog, q catalog.Lookup, asJSON bool) error {
	out := bufio.NewWriter(c.OutOrStdout()) // Flush returns its errors
	if asJSON {
		out.WriteString(`{"records":[`)
	}
	n := 0
	changed, err := cat.Each(ctx, q, func(r record.Record) error {
		if n++; asJSON && n > 1 {
			out.WriteByte(',')
		}
		out.Write(r.AppendJSON(nil))
		if !asJSON {
			return out.WriteByte('\n')
		}
		return nil
	})
	warnChanged(c, changed)
	switch {
	case err == nil && asJSON && changed:
		out.WriteString("],\"changed\":true}\n")
	case err == nil && asJSON:
		out.WriteString("]}\n")
	}
	return errors.Join(asUsage(err), out.Flush())
}
