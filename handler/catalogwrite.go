package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"tablesweep/internal/catalog"
	"tablesweep/internal/catalog/load"
	"tablesweep/internal/file"
	"tablesweep/internal/input/lines"
	"tablesweep/internal/job"
	"tablesweep/internal/job/progress"
	"tablesweep/internal/job/sweep"
	"tablesweep/internal/place"
	"tablesweep/internal/record"
)

// insertOptions are the options of the command catalog insert.
type insertOptions struct {
	catalogFlags
	csvFlags
	file, once string
	conditionFlag
	upsert, json bool
	input        *os.File // of --file
}

func (o *insertOptions) options() []option {
	return slices.Concat(o.catalogFlags.options(), o.csvFlags.options(), []option{
		{"file", perRun, &o.file, nil, "file with a record a line, or CSV as for import; - is stdin, which is read if there are no records among the arguments"},
		{"idempotency-key", perRun, &o.once, nil, "of a single record: with the same key and record, nothing is done for a day"},
		{"upsert", perRun, &o.upsert, nil, "replace what is there with the same index values and row key"},
		o.conditionFlag.option("; with --upsert and a single record"),
		{"json", perRun, &o.json, nil, "print a JSON object for each record"},
	})
}

func (o *insertOptions) run(r *call) error {
	args := r.args
	r.changes = true
	switch {
	case o.once != "" && (len(args) != 1 || o.upsert):
		return usagef("--idempotency-key is for inserting one record, given as an argument")
	case o.ifMatch != "" && (len(args) != 1 || !o.upsert):
		return usagef("--if-match is for --upsert of one record, given as an argument")
	case len(args) > 0 && o.file != "":
		return usagef("records are arguments or in a --file, not both")
	}
	for i, a := range args {
		if strings.TrimSpace(a) == "" {
			return usagef("argument %d is empty; a record is a JSON object", i+1)
		}
		args[i] = strings.ReplaceAll(a, "\n", " ") // no JSON string has one
	}
	form, err := o.records(r, o.file)
	if err != nil {
		return err
	}
	if o.file != "" && o.file != "-" {
		f, err := file.OpenPipe(r.ctx, o.file, os.O_RDONLY, 0)
		if err != nil {
			return job.Unopened("file", err)
		}
		defer f.Close()
		o.input = f
	}
	if len(args) == 0 && o.file == "" && asks(r.In) {
		return usagef("give records as arguments, or a --file")
	}
	return o.with(r, needs{(*catalog.Catalog).Prepare, (*catalog.Catalog).Writable}, func(ctx context.Context, cat *catalog.Catalog) error {
		in := inserter{Catalog: cat, insertOptions: o, call: r}
		if err := o.read(ctx, r.In, args, form, in.rows); err != nil {
			return err
		}
		return refusedRecords(in.refused)
	})
}

// read calls fn with the rows of the arguments, the file or stdin.
func (o *insertOptions) read(ctx context.Context, stdin io.Reader, args []string, form place.CSV, fn func([]load.Row) error) error {
	switch {
	case len(args) > 0:
		return load.Arriving(ctx, strings.NewReader(strings.Join(args, "\n")), fn)
	case o.input != nil:
		rows, err := load.NewFile(ctx, o.file, o.input, form)
		if err != nil {
			return asUsage(err)
		}
		return rows.Each(ctx, fn)
	}
	return load.Arriving(ctx, stdin, fn)
}

// inserter writes records, and prints what became of them.
type inserter struct {
	*catalog.Catalog
	*insertOptions
	call    *call
	refused int
}

// outcome is a record's result.
type outcome struct {
	Line    int    `json:"line"`
	Outcome string `json:"outcome"`
	Reason  string `json:"reason,omitempty"`
	catalog.Meta
}

// refusedRecords is the error of a command that finished although so many records were refused: the exit is 3. It is nil for 0.
func refusedRecords(n int) error {
	if n == 0 {
		return nil
	}
	return partlyf("the catalog refused %s", progress.Plural(n, "record"))
}

// rows writes rows. After an interrupt, it finishes them.
func (in *inserter) rows(rows []load.Row) error {
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

// verbs has a word for each outcome.
var verbs = map[catalog.Outcome]string{catalog.Created: "inserted", catalog.Replaced: "replaced", catalog.Unchanged: "unchanged"}

// catalogPatchOptions are the options of the command catalog patch.
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
	return o.with(r, nil, func(ctx context.Context, cat *catalog.Catalog) error {
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

// catalogDeleteOptions are the options of the command catalog delete.
type catalogDeleteOptions struct {
	catalogFlags
	selection
	conditionFlag
	yesFlag
	json, dryRun bool
}

func (o *catalogDeleteOptions) options() []option {
	return slices.Concat(o.catalogFlags.options(), o.selection.options(), o.yesFlag.options(), []option{
		o.conditionFlag.option("; there must be one record only"),
		{"json", perRun, &o.json, nil, "print the number as JSON"},
		{"dry-run", perRun, &o.dryRun, nil, "delete nothing; count the records"},
	})
}

func (o *catalogDeleteOptions) run(r *call) error {
	r.changes, r.dry = true, o.dryRun
	q, err := o.query(r.args)
	if err != nil {
		return err
	}
	return o.with(r, needs{(*catalog.Catalog).Writable}, func(ctx context.Context, cat *catalog.Catalog) error {
		if o.dryRun {
			records, err := countAll(ctx, cat, q)
			if err != nil {
				return err
			}
			return r.print(o.json, map[string]int{"records": records.Count}, "would delete %s of %s\n", progress.Plural(records.Count, "record"), cat.Index)
		}
		if err := o.askDelete(r, o.what(r.args), cat.Index.String(), cat.Index.Name()); err != nil {
			return err
		}
		deleted, err := o.deleteAll(ctx, r.Meter, cat, q)
		if err != nil {
			return asUsage(err)
		}
		return r.print(o.json, map[string]int{"deleted": deleted}, "deleted %s\n", progress.Plural(deleted, "record"))
	})
}

// deleteAll repeats the deletion until nothing is left, and shows how far it is.
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
			err = fmt.Errorf("deleted %s, then failed: %w", progress.Plural(deleted, "record"), err)
		}
		if err != nil {
			return 0, err
		}
		deleted, more = deleted+done.Records, done.More
	}
	return deleted, nil
}
