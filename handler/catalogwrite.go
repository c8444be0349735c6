package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"tablesweep/internal/catalog"
	"tablesweep/internal/catalog/load"
	"tablesweep/internal/input/lines"
	"tablesweep/internal/job/progress"
	"tablesweep/internal/job/sweep"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
)

type insertOptions struct {
	catalogFlags
	once string
	conditionFlag
	upsert, json bool
}

func (o *insertOptions) options() []option {
	return append(o.catalogFlags.options(), []option{
		{"idempotency-key", perRun, &o.once, nil, "for a single record: a second insert with this key within a day does nothing"},
		{"upsert", perRun, &o.upsert, nil, "replace existing records that have the same index values and row key"},
		o.conditionFlag.option("; with --upsert and a single record"),
		{"json", perRun, &o.json, nil, "print a JSON object for each record"},
	}...)
}

func (o *insertOptions) run(r *call) error {
	args := r.args
	r.changes = true
	switch {
	case o.once != "" && (len(args) != 1 || o.upsert):
		return usagef("--idempotency-key needs exactly one record, given as an argument")
	case o.ifMatch != "" && (len(args) != 1 || !o.upsert):
		return usagef("--if-match needs --upsert and exactly one record as an argument")
	case len(args) == 0 && isTerminal(r.In):
		return usagef(`give records as arguments or on stdin; "tablesweep catalog import" reads a file`)
	}
	for i, a := range args {
		if strings.TrimSpace(a) == "" {
			return usagef("argument %d is empty; a record is a JSON object", i+1)
		}
		args[i] = strings.ReplaceAll(a, "\n", " ") // changes no value, because strings in JSON contain no newline
	}
	in := r.In
	if len(args) > 0 {
		in = strings.NewReader(strings.Join(args, "\n"))
	}
	return o.withCatalog(r, needs{(*catalog.Catalog).Prepare, (*catalog.Catalog).Writable}, func(ctx context.Context, cat *catalog.Catalog) error {
		to := inserter{Catalog: cat, insertOptions: o, call: r}
		if err := load.Arriving(ctx, in, to.insertRows); err != nil {
			return err
		}
		return refusedRecords(to.refused)
	})
}

// inserter writes records, and prints the outcome of each.
type inserter struct {
	*catalog.Catalog
	*insertOptions
	call    *call
	refused int
}

type outcome struct {
	Line    int    `json:"line"`
	Outcome string `json:"outcome"`
	Reason  string `json:"reason,omitempty"`
	catalog.Meta
}

// refusedRecords returns nil if n is 0. Otherwise, it returns the error of a command that finished, but had n refused records. This
// error causes the exit code 3.
func refusedRecords(n int) error {
	if n == 0 {
		return nil
	}
	return partlyf("the catalog refused %s", problem.Plural(n, "record"))
}

// insertRows writes rows. An interrupt does not stop it.
func (in *inserter) insertRows(rows []load.Row) error {
	return load.Write(context.WithoutCancel(in.call.ctx), in.Catalog, rows, in.write, in.print)
}

func (in *inserter) write(ctx context.Context, r record.Record) (catalog.Written, error) {
	if in.upsert {
		return in.Put(ctx, r, in.condition())
	}
	return in.Insert(ctx, r, in.once)
}

func (in *inserter) print(row load.Row, r catalog.Result) error {
	o := outcome{Line: row.Line, Outcome: verbs[r.Outcome], Meta: r.Meta}
	if r.Err != nil {
		in.refused++
		o.Outcome, o.Reason = "refused", r.Err.Error()
		fmt.Fprintf(in.call.toErr, "tablesweep: refused: line %d: %s\n", o.Line, o.Reason)
	}
	if in.json {
		return lines.JSON(in.call.Out).Encode(o)
	}
	_, err := fmt.Fprintf(in.call.Out, "%d %s\n", o.Line, o.Outcome)
	return err
}

var verbs = map[catalog.Outcome]string{catalog.Created: "inserted", catalog.Replaced: "replaced", catalog.Unchanged: "unchanged"}

type catalogPatchOptions struct {
	catalogFlags
	selection
	conditionFlag
	json bool
}

func (o *catalogPatchOptions) options() []option {
	return slices.Concat(o.catalogFlags.options(), o.selection.options(), []option{
		o.conditionFlag.option(""), {"json", perRun, &o.json, nil, "print an object with the record, its id and its ETag"},
	})
}

func (o *catalogPatchOptions) run(r *call) error {
	r.changes = true
	last := len(r.args) - 1
	if last < 1 {
		return usagef("give an index key and its value, such as eid=F314, and then the patch, such as '{\"wage\":41.5}'")
	}
	q, err := o.query(r.args[:last])
	if err != nil {
		return err
	}
	return o.withCatalog(r, nil, func(ctx context.Context, cat *catalog.Catalog) error {
		done, err := cat.Patch(ctx, []byte(r.args[last]), q, o.condition())
		if err != nil {
			return asUsage(err)
		}
		out := lines.JSON(r.Out)
		if o.json {
			return out.Encode(map[string]any{"outcome": verbs[done.Outcome], "record": done.Record, "meta": done.Meta})
		}
		return out.Encode(done.Record)
	})
}

type catalogDeleteOptions struct {
	catalogFlags
	selection
	conditionFlag
	yesFlag
	json, dryRun bool
}

func (o *catalogDeleteOptions) options() []option {
	return slices.Concat(o.catalogFlags.options(), o.selection.options(), o.yesFlag.options(), []option{
		o.conditionFlag.option("; only one record may match"),
		{"json", perRun, &o.json, nil, "print the number as JSON"},
		{"dry-run", perRun, &o.dryRun, nil, "count the records that would be deleted, and delete none"},
	})
}

func (o *catalogDeleteOptions) run(r *call) error {
	r.changes, r.dry = true, o.dryRun
	q, err := o.query(r.args)
	if err != nil {
		return err
	}
	confirm := func(cat *catalog.Catalog, _ context.Context) error {
		if o.dryRun {
			return nil
		}
		return o.confirmDelete(r, o.describe(r.args), cat.Index.String(), cat.Index.Name())
	}
	return o.withCatalog(r, needs{(*catalog.Catalog).Writable, confirm}, func(ctx context.Context, cat *catalog.Catalog) error {
		if o.dryRun {
			records, err := countAll(ctx, cat, q)
			if err != nil {
				return err
			}
			return r.print(o.json, map[string]int{"records": records.Count}, "would delete %s of %s\n", problem.Plural(records.Count, "record"), cat.Index)
		}
		deleted, err := o.deleteAll(ctx, r.Meter, cat, q)
		if err != nil {
			return asUsage(err)
		}
		return r.print(o.json, map[string]int{"deleted": deleted}, "deleted %s\n", problem.Plural(deleted, "record"))
	})
}

// deleteAll deletes until no matching record is left, and shows its progress.
func (o *catalogDeleteOptions) deleteAll(ctx context.Context, meter *progress.Meter, cat *catalog.Catalog, q catalog.Lookup) (deleted int, err error) {
	meter.Use(progress.Plain)
	meter.Records()
	meter.Phase("deleting")
	defer meter.Clear()
	start := time.Now()
	for more := true; more; {
		done, err := cat.Delete(ctx, q, o.condition(), func(records int) {
			rows := sweep.Totals{Rows: int64(deleted + records)}
			meter.Show(sweep.Progress{Totals: rows, Run: rows, Elapsed: time.Since(start)})
		})
		if summary := done.Summary(); err != nil && summary != "" {
			err = fmt.Errorf("%s: %w", summary, err)
		}
		if err != nil && deleted > 0 {
			err = fmt.Errorf("the command failed after it had deleted %s: %w", problem.Plural(deleted, "record"), err)
		}
		if err != nil {
			return 0, err
		}
		deleted, more = deleted+done.Records, done.More
	}
	return deleted, nil
}
