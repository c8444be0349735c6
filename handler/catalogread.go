package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tablesweep/internal/catalog"
	"tablesweep/internal/input/lines"
	"tablesweep/internal/job"
	"tablesweep/internal/record"
)

type catalogQueryOptions struct {
	catalogFlags
	selection
	page
	all bool
}

// page contains the flags that choose a page of records or changes.
type page struct {
	top    int
	cursor string
	json   bool
}

func (p *page) options(what string) []option {
	return []option{
		{"top", perRun, &p.top, catalog.DefaultTop, fmt.Sprintf("maximum number of %s to print, 1 to %d", what, catalog.MaxTop)},
		{"cursor", perRun, &p.cursor, nil, "continue after the cursor that an earlier command printed"},
		{"json", perRun, &p.json, nil, "print one JSON object with all the items and the cursor"},
	}
}

// check returns an error if --top is out of range.
func (p *page) check() error {
	if p.top < 1 || p.top > catalog.MaxTop {
		return usagef("--top is %d; it must be 1 to %d", p.top, catalog.MaxTop)
	}
	return nil
}

// print prints a page. Without --json, it prints one item per line, and the cursor on stderr. With --json, it prints one JSON object
// with the items under the given name, the records' ids and ETags under "meta", and the cursor under "cursor". If the items are not records, the
// argument `meta` is nil.
func (p *page) print(r *call, name string, items []any, meta []catalog.Meta, cursor string) error {
	out := lines.JSON(r.Out)
	if p.json {
		answer := map[string]any{name: append([]any{}, items...)}
		if meta != nil {
			answer["meta"] = meta
		}
		if cursor != "" {
			answer["cursor"] = cursor
		}
		return out.Encode(answer)
	}
	for _, item := range items {
		if err := out.Encode(item); err != nil {
			return err
		}
	}
	if cursor != "" {
		fmt.Fprintf(r.toErr, "tablesweep: there are more %s: --cursor %s\n", name, cursor)
	}
	return nil
}

func (o *catalogQueryOptions) options() []option {
	return slices.Concat(o.catalogFlags.options(), o.selection.options(), o.page.options("records"), []option{{"all", perRun, &o.all, nil, "print all records"}})
}

func (o *catalogQueryOptions) run(r *call) error {
	if len(r.args) == 0 {
		return usagef(`give an index key and its value, such as eid=F314; "tablesweep catalog export" prints all records`)
	}
	q, err := o.readQuery(r.args)
	if err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	if o.all && r.text("top") != "" {
		return usagef("--top and --all cannot be combined")
	}
	q.Top, q.Cursor = o.top, o.cursor
	return o.withCatalog(r, needs{(*catalog.Catalog).Readable}, func(ctx context.Context, cat *catalog.Catalog) error {
		if o.all {
			return printAll(ctx, r, cat, q, o.json)
		}
		found, err := cat.Find(ctx, q)
		if err != nil {
			return asUsage(err)
		}
		var items []any
		for record := range found.Records() {
			items = append(items, record)
		}
		return o.print(r, "records", items, found.Meta, found.Cursor)
	})
}

// printAll prints all records, one per line or in one JSON object. Only one page is in memory at a time.
func printAll(ctx context.Context, call *call, cat *catalog.Catalog, q catalog.Lookup, asJSON bool) error {
	out := bufio.NewWriter(call.Out) // Flush returns its errors
	if asJSON {
		out.WriteString(`{"records":[`)
	}
	n := 0
	err := cat.Each(ctx, q, func(r record.Record) error {
		if n++; asJSON && n > 1 {
			out.WriteByte(',')
		}
		out.Write(r.AppendJSON(nil))
		if !asJSON {
			return out.WriteByte('\n')
		}
		return nil
	})
	if err == nil && asJSON {
		out.WriteString("]}\n")
	}
	return errors.Join(asUsage(err), out.Flush())
}

type catalogChangesOptions struct {
	catalogFlags
	page
	since string
}

func (o *catalogChangesOptions) options() []option {
	return slices.Concat(o.catalogFlags.options(), o.page.options("changes"), []option{
		{"since", perRun, &o.since, nil, "only changes after this moment: a time, a date, or a duration before now such as 2h"},
	})
}

func (o *catalogChangesOptions) run(r *call) error {
	if err := o.check(); err != nil {
		return err
	}
	if _, err := job.ParseSince(o.since, time.Now()); err != nil {
		return err
	}
	return o.withCatalog(r, needs{(*catalog.Catalog).Readable}, func(ctx context.Context, cat *catalog.Catalog) error {
		now, err := cat.Now(ctx)
		if err != nil {
			return err
		}
		from, err := job.ParseSince(o.since, now) // a duration such as 2h counts back from the service's time
		if err != nil {
			return err
		}
		var items []any
		next, err := cat.Changes(ctx, o.top, o.cursor, from, func(one catalog.Change) bool {
			items = append(items, one)
			return true
		})
		if err != nil {
			return asUsage(err)
		}
		return o.print(r, "changes", items, nil, next)
	})
}

type catalogExportOptions struct {
	catalogFlags
	selection
}

func (o *catalogExportOptions) options() []option {
	return append(o.catalogFlags.options(), o.selection.options()...)
}

func (o *catalogExportOptions) run(r *call) error {
	q, err := o.readQuery(r.args)
	if err != nil {
		return err
	}
	return o.withCatalog(r, needs{exists}, func(ctx context.Context, cat *catalog.Catalog) error { return printAll(ctx, r, cat, q, false) })
}

type catalogCountOptions struct {
	catalogFlags
	selection
	json bool
}

func (o *catalogCountOptions) options() []option {
	return slices.Concat(o.catalogFlags.options(), o.selection.options(), []option{{"json", perRun, &o.json, nil, "print the number as JSON"}})
}

func (o *catalogCountOptions) run(r *call) error {
	q, err := o.readQuery(r.args)
	if err != nil {
		return err
	}
	return o.withCatalog(r, needs{exists}, func(ctx context.Context, cat *catalog.Catalog) error {
		total, err := countAll(ctx, cat, q)
		if err != nil {
			return err
		}
		return r.print(o.json, total, "%d\n", total.Count)
	})
}

// countAll counts all matching records. One call of Count may count only a part of them.
func countAll(ctx context.Context, cat *catalog.Catalog, q catalog.Lookup) (catalog.Total, error) {
	for total := (catalog.Total{}); ; {
		part, err := cat.Count(ctx, q)
		if err != nil {
			return total, asUsage(err)
		}
		total.Count += part.Count
		if q.Cursor = part.Cursor; q.Cursor == "" {
			return total, nil
		}
	}
}
