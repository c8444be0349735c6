package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"tablesweep/internal/catalog"
	"tablesweep/internal/catalog/load"
	"tablesweep/internal/file"
	"tablesweep/internal/job"
	"tablesweep/internal/job/progress"
	"tablesweep/internal/job/sweep"
	"tablesweep/internal/problem"
)

type importOptions struct {
	catalogFlags
	csvFlags
	checkpointFlags
	upsert, json bool
}

func (o *importOptions) options() []option {
	return slices.Concat(o.catalogFlags.options(), o.csvFlags.options(), o.checkpointFlags.options(), []option{
		{"upsert", fixed, &o.upsert, nil, "replace existing records that have the same index values and row key"},
		{"json", perRun, &o.json, nil, "print the summary as JSON"},
	})
}

func (o *importOptions) run(r *call) error {
	r.changes = true
	path, err := o.path(r)
	if err != nil {
		return err
	}
	form, err := o.records(r, path)
	if err != nil {
		return err
	}
	in, err := file.OpenPipe(r.ctx, path, os.O_RDONLY, 0)
	if err != nil {
		return job.Unopened("", fmt.Errorf("the file of records: %w", err))
	}
	defer in.Close()
	return o.withCatalog(r, nil, func(ctx context.Context, cat *catalog.Catalog) error {
		record, err := r.point.Begin(r.givenFlags(), job.Facts{Places: []string{cat.Index.Address(), cat.Schema.String()}})
		if err != nil {
			return err
		}
		if err := cat.Prepare(ctx); err != nil {
			return err
		}
		if err := cat.Writable(ctx); err != nil {
			return err
		}
		meter := r.Meter
		meter.Use(progress.Plain)
		meter.Records()
		meter.Phase("importing")
		start, before := time.Now(), 0
		meter.Show(sweep.Progress{}) // shows a line immediately
		done, err := load.Import(ctx, cat, in, load.ImportOptions{
			Checkpoint: record.Journal,
			Upsert:     o.upsert,
			CSV:        form,
			Patience:   o.patience,
			Resumed: func(rows int) {
				before = rows
				meter.Print("import", fmt.Sprintf("continuing after record %d", rows))
			},
			Failed: func(row load.Row, err error) {
				meter.Print("refused", fmt.Sprintf("line %d: %s", row.Line, strings.ReplaceAll(err.Error(), "\n", "; ")))
			},
			Noted: func(n load.Note) {
				meter.Show(sweep.Progress{
					Totals: sweep.Totals{Rows: int64(n.Rows), Failed: int64(n.Failed)},
					Run:    sweep.Totals{Rows: int64(n.Rows - before)}, Elapsed: time.Since(start),
				})
			},
		})
		meter.Clear()
		switch err = asUsage(err); {
		case exitCode(err) == exitUsage:
			return err
		case err != nil && record.Journal == nil:
			return job.Hint(err, "run the command again; records that are already imported stay unchanged")
		}
		if err != nil {
			return r.withResumeHint(err)
		}
		err = r.finish(func() error { return o.summary(r, done) })
		if err == nil && done.Failed > 0 {
			hint := fmt.Sprintf("the refused records are in %s%s; correct them, and import that file", path, load.FailedExt)
			if !o.upsert {
				hint += "; --upsert replaces existing records that have other contents"
			}
			err = job.Hint(refusedRecords(done.Failed), hint)
		}
		return err
	})
}

func (o *importOptions) summary(r *call, done load.Note) error {
	counts := map[string]int{"inserted": done.Inserted, "unchanged": done.Unchanged, "refused": done.Failed}
	replaced := ""
	if o.upsert {
		counts["replaced"] = done.Replaced
		replaced = fmt.Sprintf("replaced %d, ", done.Replaced)
	}
	return r.print(o.json, counts, "inserted %s, %sleft %d unchanged, refused %d\n", problem.Plural(done.Inserted, "record"), replaced, done.Unchanged, done.Failed)
}

// path returns the path of the file to import, from the argument or the checkpoint.
func (o *importOptions) path(r *call) (string, error) {
	switch {
	case len(r.args) > 1:
		return "", usagef("import takes one file of records")
	case len(r.args) == 1 && r.args[0] != "":
		return r.args[0], nil
	case r.point.File == nil:
		return "", usagef("the file of records to import is missing")
	}
	done, err := load.Progress(r.point.File)
	if err != nil {
		return "", job.BadCheckpoint(err)
	}
	if !r.point.InResumedDirectory(done.File) {
		return "", usagef("--resume %s: give the file of records again, because the file is outside the checkpoint's directory", o.resume)
	}
	return done.File, nil
}
