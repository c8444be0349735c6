package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tablesweep/internal/catalog"
	"tablesweep/internal/catalog/load"
	"tablesweep/internal/file"
	"tablesweep/internal/job"
	"tablesweep/internal/sweep"
	"tablesweep/internal/sweep/progress"
)

// importOptions are the flags of the command catalog import.
type importOptions struct {
	*catalogFlags
	checkpointFlags
	jsonFlag
}

func catalogImportCommand(f *catalogFlags) *cobra.Command {
	o := importOptions{catalogFlags: f}
	c := withArgs("import [FILE]", "Insert the records of a file of JSON lines or CSV", o.run)
	o.checkpointFlags.add(c)
	o.jsonFlag.add(c, "print the summary as JSON")
	return c
}

func (o *importOptions) run(c *cobra.Command, args []string) error {
	path, err := o.path(c, args)
	if err != nil {
		return err
	}
	in, err := file.OpenPipe(c.Context(), path, os.O_RDONLY, 0)
	if err != nil {
		return job.Unopened("", fmt.Errorf("the file of records: %w", err))
	}
	defer in.Close()
	return o.with(c, nil, func(ctx context.Context, cat *catalog.Catalog) error {
		record, err := o.begin(c, job.Facts{Places: []string{cat.Index.Address(), cat.Schema.String()}})
		if err != nil {
			return err
		}
		if err := cat.Prepare(ctx); err != nil {
			return err
		}
		if err := cat.Writable(ctx); err != nil {
			return err
		}
		meter := sharedBy(c).meter
		meter.Use(progress.Plain)
		meter.Records()
		meter.Phase("importing")
		start, before := time.Now(), 0
		meter.Show(sweep.Progress{}) // so that there is a line at once
		done, err := load.Import(ctx, cat, in, load.ImportOptions{
			Checkpoint: record.Journal,
			Patience:   o.patience,
			Resumed: func(rows int) {
				before = rows
				meter.Say("import", fmt.Sprintf("going on behind record %d", rows))
			},
			Failed: func(row load.Row, err error) {
				meter.Say("refused", fmt.Sprintf("line %d: %s", row.Line, strings.ReplaceAll(err.Error(), "\n", "; ")))
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
			return job.Hint(err, "run it again: records that are there already stay unchanged")
		}
		err = o.ended(c, err, func() error {
			counts := map[string]int{"inserted": done.Inserted, "unchanged": done.Unchanged, "refused": done.Failed}
			return o.print(c, counts, "inserted %d records, %d were unchanged, %d were refused\n", done.Inserted, done.Unchanged, done.Failed)
		})
		if err == nil && done.Failed > 0 {
			err = job.Hint(refusedRecords(done.Failed), fmt.Sprintf("they are in %s%s: mend them, and import that file", path, load.FailedExt))
		}
		return err
	})
}

// path returns the path of the file to import: the argument, or what the checkpoint has.
func (o *importOptions) path(c *cobra.Command, args []string) (string, error) {
	if o.file == nil || len(args) > 0 {
		return onlyArg(c, args, "the file of records to import")
	}
	done, err := load.Progress(o.file)
	if err != nil {
		return "", job.BadCheckpoint(err)
	}
	if _, ok := beside(homeOf(o.resume), done.File); !ok {
		return "", usagef("--resume %s: name the file of records again: it is outside the checkpoint's directory, and a checkpoint chooses no such file", o.resume)
	}
	return done.File, nil
}
