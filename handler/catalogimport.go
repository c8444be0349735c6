package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"tablesweep/internal/catalog"
	"tablesweep/internal/lines"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
	"tablesweep/internal/sweep"
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

// importChunk is how many records are inserted before FILE.import is written again.
const importChunk = 1000

// failedExt ends the name of the file of refused rows.
const failedExt = ".failed"

// importBytes bounds the text of these records.
const importBytes = 16 << 20

// importOptions are the flags of the command catalog import.
type importOptions struct {
	*catalogFlags
	restart, json bool
}

func catalogImportCommand(f *catalogFlags) *cobra.Command {
	o := importOptions{catalogFlags: f}
	c := &cobra.Command{
		Use:     "import FILE",
		Short:   "Insert the records of a file of JSON lines or CSV",
		Long:    catalogImportHelp,
		Example: catalogImportExamples,
		RunE:    func(c *cobra.Command, args []string) error { return runCatalogImport(c, o, args) },
	}
	c.Flags().BoolVar(&o.restart, "restart", false, "begin anew, not where an earlier import of the file ended")
	c.Flags().BoolVar(&o.json, "json", false, "print the summary as JSON")
	return c
}

func runCatalogImport(c *cobra.Command, o importOptions, args []string) error {
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
		im := importer{Catalog: cat, cmd: c, path: args[0], chunk: importChunk, start: time.Now()}
		if err := im.open(file, o.restart); err != nil {
			return err
		}
		if err := im.run(ctx); err != nil {
			return err
		}
		return im.summary(o.json)
	})
}

// inputRow is a record of a file, or what is wrong with it.
type inputRow struct {
	line   int
	record record.Record
	err    error
	raw    []byte // its text in the file, without the line's end
}

// imported is an import's progress, as FILE.import has it.
type imported struct {
	Version     int       `json:"version"`
	Size        int64     `json:"size"`
	Modified    time.Time `json:"modified"`
	Catalog     string    `json:"catalog"` // its table and schema
	Rows        int       `json:"rows"`    // of the file, that are done with
	Inserted    int       `json:"inserted"`
	Unchanged   int       `json:"unchanged"`
	Refused     int       `json:"refused"`
	FailedBytes int64     `json:"failedBytes"` // of FILE.failed
}

// importer imports a file.
type importer struct {
	*catalog.Catalog
	cmd   *cobra.Command
	path  string
	chunk int // rows between two notes
	start time.Time
	shown time.Time // when progress was last shown

	done   imported
	before int    // rows done by earlier runs
	header []byte // of CSV
	next   func() (inputRow, error)
	failed *os.File
}

// open reads an earlier import's progress, and continues from there.
func (im *importer) open(file *os.File, restart bool) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	im.done = imported{Version: 1, Size: info.Size(), Modified: info.ModTime().UTC(), Catalog: im.Index.String() + " " + im.Schema.String()}
	if isCSV(im.path) {
		rows, err := newCSVRows(file)
		if err != nil {
			return usagef("%s: %w", im.path, err)
		}
		im.header, im.next = rows.header, rows.next
	} else {
		im.next = jsonRows(file)
	}
	text, err := os.ReadFile(im.path + ".import")
	switch {
	case errors.Is(err, os.ErrNotExist) || restart:
		return nil
	case err != nil:
		return err
	}
	var earlier imported
	if err := json.Unmarshal(text, &earlier); err != nil || earlier.Version != 1 {
		return usagef("%s.import is damaged or of a later version: remove it, or give --restart", im.path)
	}
	if earlier.Size != im.done.Size || !earlier.Modified.Equal(im.done.Modified) || earlier.Catalog != im.done.Catalog {
		return usagef("%s has changed since its import began, or the import was into another catalog: --restart starts over", im.path)
	}
	im.done = earlier
	fmt.Fprintf(im.cmd.ErrOrStderr(), "tablesweep: going on behind row %d\n", earlier.Rows)
	for range earlier.Rows {
		if _, err := im.next(); err != nil {
			return err
		}
	}
	im.before = earlier.Rows
	return nil
}

// isCSV reports whether the file has CSV. A file of refused rows has the form of the
// imported one.
func isCSV(path string) bool {
	for filepath.Ext(path) == failedExt {
		path = strings.TrimSuffix(path, failedExt)
	}
	return strings.EqualFold(filepath.Ext(path), ".csv")
}

// jsonRows returns a reader of records from JSON lines.
func jsonRows(in io.Reader) func() (inputRow, error) {
	from := lines.NewReader(in)
	return func() (inputRow, error) {
		l, err := from.Next()
		if err != nil {
			return inputRow{}, err
		}
		row := inputRow{line: l.Number, raw: l.Text}
		row.record, row.err = record.Parse(l.Text)
		return row, nil
	}
}

// run imports chunk after chunk. After an interrupt it finishes the chunk that it has begun.
func (im *importer) run(ctx context.Context) error {
	var err error
	flags := os.O_CREATE | os.O_RDWR
	if im.failed, err = os.OpenFile(im.path+failedExt, flags, 0o600); err != nil {
		return err
	}
	defer im.failed.Close()
	if err := im.failed.Truncate(im.done.FailedBytes); err != nil { // a chunk that was not ended is done again
		return err
	}
	for last := false; !last; {
		var rows []inputRow
		for size := 0; len(rows) < im.chunk && size < importBytes; {
			row, err := im.next()
			if errors.Is(err, io.EOF) {
				last = true
				break
			}
			if err != nil {
				return err
			}
			size += len(row.raw)
			rows = append(rows, row)
		}
		if ctx.Err() != nil {
			return sweep.ErrInterrupted
		}
		if len(rows) > 0 {
			if err := im.insert(context.WithoutCancel(ctx), rows); err != nil {
				return err
			}
		}
		im.progress()
	}
	if im.done.Refused == 0 {
		_ = os.Remove(im.failed.Name()) // it is empty
	}
	if err := os.Remove(im.path + ".import"); !errors.Is(err, os.ErrNotExist) { // a file without records has none
		return err
	}
	return nil
}

// insert inserts a chunk, and records the progress.
func (im *importer) insert(ctx context.Context, rows []inputRow) error {
	var records []record.Record
	for _, row := range rows {
		if row.err == nil {
			records = append(records, row.record)
		}
	}
	results := im.InsertAll(ctx, records)
	var refused bytes.Buffer
	done := im.done
	for _, row := range rows {
		err := row.err
		var one catalog.Inserted
		if err == nil {
			one, results = results[0], results[1:]
			err = one.Err
		}
		switch {
		case err == nil && one.Outcome == catalog.Unchanged:
			done.Unchanged++
		case err == nil:
			done.Inserted++
		case row.err == nil && problem.Status(err) >= 500:
			return hinted{fmt.Errorf("line %d: %w", row.line, err), "run the command again: it goes on from there"}
		default:
			done.Refused++
			fmt.Fprintf(im.cmd.ErrOrStderr(), "tablesweep: refused: line %d: %s\n", row.line, strings.ReplaceAll(err.Error(), "\n", "; "))
			im.keep(&refused, row, done.FailedBytes == 0 && refused.Len() == 0)
		}
	}
	if _, err := im.failed.WriteAt(refused.Bytes(), done.FailedBytes); err != nil {
		return err
	}
	if err := im.failed.Sync(); err != nil {
		return err
	}
	done.FailedBytes += int64(refused.Len())
	done.Rows += len(rows)
	im.done = done
	text, err := json.Marshal(done)
	if err != nil {
		return err
	}
	return sweep.ReplaceFile(im.path+".import", text)
}

// keep writes a refused row unchanged. In CSV, the header comes before the first one.
func (im *importer) keep(to *bytes.Buffer, row inputRow, first bool) {
	if first && im.header != nil {
		to.Write(append(im.header, '\n'))
	}
	to.Write(append(row.raw, '\n'))
}

// progress shows the import's progress: now and then, or on a terminal all the time.
func (im *importer) progress() {
	f, ok := im.cmd.ErrOrStderr().(*os.File)
	live := ok && isatty.IsTerminal(f.Fd())
	pause, end := 5*time.Second, "\n"
	if live {
		pause, end = time.Second/2, "\r"
	}
	if now := time.Now(); now.Sub(im.shown) >= pause && now.Sub(im.start) >= pause {
		im.shown = now
		rate := float64(im.done.Rows-im.before) / now.Sub(im.start).Seconds()
		fmt.Fprintf(im.cmd.ErrOrStderr(), "tablesweep: %d rows done, %d refused, %.0f rows/s%s", im.done.Rows, im.done.Refused, rate, end)
	}
}

func (im *importer) summary(asJSON bool) error {
	d := im.done
	var err error
	if asJSON {
		err = jsonTo(im.cmd.OutOrStdout()).Encode(map[string]int{"inserted": d.Inserted, "unchanged": d.Unchanged, "refused": d.Refused})
	} else {
		_, err = fmt.Fprintf(im.cmd.OutOrStdout(), "inserted %d records, %d were unchanged, %d were refused\n", d.Inserted, d.Unchanged, d.Refused)
	}
	if err == nil && d.Refused > 0 {
		err = hinted{refusedRecords{failedRows(d.Refused)}, fmt.Sprintf("they are in %s.failed: mend them, and import that file", im.path)}
	}
	return err
}
