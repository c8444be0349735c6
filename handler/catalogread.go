package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"tablesweep/internal/catalog"
	"tablesweep/internal/input/lines"
	"tablesweep/internal/job"
	"tablesweep/internal/record"
)

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
	c := withArgs("query KEY=VALUE…", "Find records by index keys", o.run)
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
	return o.with(c, needs{(*catalog.Catalog).Readable}, func(ctx context.Context, cat *catalog.Catalog) error {
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

func catalogChangesCommand(f *catalogFlags) *cobra.Command {
	var p page
	var since string
	c := command("changes", "Print the newest changes", func(c *cobra.Command) error {
		if err := p.check(); err != nil {
			return err
		}
		if _, err := job.ParseSince(since, time.Now()); err != nil {
			return err
		}
		return f.with(c, needs{(*catalog.Catalog).Readable}, func(ctx context.Context, cat *catalog.Catalog) error {
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

func catalogExportCommand(f *catalogFlags) *cobra.Command {
	return readCommand(f, "export", "Print all records",
		func(ctx context.Context, c *cobra.Command, cat *catalog.Catalog, q catalog.Lookup) error {
			return printAll(ctx, c, cat, q, false)
		})
}

// readCommand returns a command that does something with the records that its arguments and flags select, all
// if they select none.
func readCommand(f *catalogFlags, name, short string,
	do func(context.Context, *cobra.Command, *catalog.Catalog, catalog.Lookup) error) *cobra.Command {
	var s selection
	c := withArgs(name+" [KEY=VALUE…]", short, func(c *cobra.Command, args []string) error {
		q, err := s.reading(args)
		if err != nil {
			return err
		}
		return f.with(c, needs{exists}, func(ctx context.Context, cat *catalog.Catalog) error { return do(ctx, c, cat, q) })
	})
	s.add(c)
	return c
}

func catalogCountCommand(f *catalogFlags) *cobra.Command {
	var out jsonFlag
	c := readCommand(f, "count", "Count records",
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
