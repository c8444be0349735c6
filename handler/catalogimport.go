package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tablesweep/internal/catalog"
	"tablesweep/internal/catalog/load"
	"tablesweep/internal/sweep"
	"tablesweep/internal/sweep/progress"
)

const catalogImportHelp = `Insert the records of a file, many at once: JSON lines or, if its name ends with .csv, CSV.

The first row of CSV has the fields' names. A name may end with a colon and a type:
npi:Int64. The types are String, Boolean, Int32, Int64, Double, DateTime, Guid and Binary.
Without a type a value is text, so that 012 stays 012. An empty cell is no field.

Records that the catalog has with the same contents stay unchanged. Refused records go to
the file FILE.failed, which can be corrected and imported, and to stderr with their reasons.

FILE.import records the progress. After an interruption or a crash, the same command
continues from there; --restart starts over. The file is removed at the end.

Exits with 3 if records were refused.

` + catalogConnectionHelp

const catalogImportExamples = `  handler catalog import people.jsonl
  handler catalog import people.csv --catalog people`

// importOptions are the flags of the command catalog import.
type importOptions struct {
	*catalogFlags
	jsonFlag
	restart bool
}

func catalogImportCommand(f *catalogFlags) *cobra.Command {
	o := importOptions{catalogFlags: f}
	c := withArgs("import FILE", "Insert the records of a file of JSON lines or CSV", catalogImportHelp, catalogImportExamples, o.run)
	c.Flags().BoolVar(&o.restart, "restart", false, "begin anew, not where an earlier import of the file ended")
	o.jsonFlag.add(c, "print the summary as JSON")
	return c
}

func (o *importOptions) run(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usagef("name one file of records to import")
	}
	file, err := os.Open(args[0])
	if err != nil {
		return usageError{err}
	}
	defer file.Close()
	return o.with(c, func(ctx context.Context, cat *catalog.Catalog) error {
		if err := cat.Prepare(ctx); err != nil {
			return err
		}
		if err := cat.Writable(ctx); err != nil {
			return err
		}
		meter := sharedBy(c).meter
		meter.Use(progress.Plain)
		meter.Phase("importing")
		start, before := time.Now(), 0
		done, err := load.Import(ctx, cat, file, load.ImportOptions{
			Restart: o.restart,
			Resumed: func(rows int) {
				before = rows
				meter.Say("import", fmt.Sprintf("going on behind row %d", rows))
			},
			Refused: func(row load.Row, err error) {
				meter.Say("refused", fmt.Sprintf("line %d: %s", row.Line, strings.ReplaceAll(err.Error(), "\n", "; ")))
			},
			Noted: func(n load.Note) {
				meter.Show(sweep.Progress{
					Totals: sweep.Totals{Rows: int64(n.Rows), Failed: int64(n.Refused)},
					Run:    sweep.Totals{Rows: int64(n.Rows - before)}, Elapsed: time.Since(start),
				})
			},
		})
		meter.Clear()
		if errors.As(err, new(*load.RowError)) {
			return hinted{err, "run the command again: it goes on from there"}
		}
		if err != nil {
			return asUsage(err)
		}
		return o.summary(c, file.Name(), done)
	})
}

// summary prints an import's totals.
func (o *importOptions) summary(c *cobra.Command, path string, n load.Note) error {
	counts := map[string]int{"inserted": n.Inserted, "unchanged": n.Unchanged, "refused": n.Refused}
	err := o.print(c, counts, "inserted %d records, %d were unchanged, %d were refused\n", n.Inserted, n.Unchanged, n.Refused)
	if err == nil && n.Refused > 0 {
		err = hinted{refusedRecords{failedRows(n.Refused)}, fmt.Sprintf("they are in %s%s: mend them, and import that file", path, load.RefusedExt)}
	}
	return err
}
