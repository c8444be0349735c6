// Package load writes many records into a catalog, from a file or from lines as they arrive.
package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"tablesweep/internal/catalog"
	"tablesweep/internal/input/lines"
	"tablesweep/internal/place"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

const (
	// At most maxRows rows of a file are written together. Fewer rows are written together if their text reaches maxBytes bytes.
	maxRows  = 1000
	maxBytes = 16 << 20
)

// FailedExt is the extension of a file with an import's failed rows.
const FailedExt = ".failed"

// Row is one row of an input: a record, or the error in the row.
type Row struct {
	Line   int
	Record record.Record
	Err    error
	Text   []byte // the row's text in the input, without the end of the line
}

func rowOf(l lines.Line) Row {
	row := Row{Line: l.Number, Text: l.Text}
	row.Record, row.Err = record.Parse(l.Text)
	return row
}

type rowReader struct {
	header []byte // nil unless the file is CSV
	next   func() (Row, error)
}

// IsCSV reports whether a file's name ends with .csv. It ignores the ending .failed: if rows.csv is imported, rows.csv.failed
// contains the failed rows, also as CSV.
func IsCSV(name string) bool {
	for filepath.Ext(name) == FailedExt {
		name = strings.TrimSuffix(name, FailedExt)
	}
	return strings.EqualFold(filepath.Ext(name), ".csv")
}

// newRowReader returns a reader of a file's rows. If IsCSV is true for the name, the file must contain CSV in the given form.
// Any other file must contain JSON lines. A CSV file that is not a pipe is read twice: the first reading finds the types of the
// columns.
func newRowReader(ctx context.Context, name string, in io.ReadSeeker, form place.CSV) (*rowReader, error) {
	if IsCSV(name) {
		f, err := newCSV(ctx, in, form)
		if err != nil && !errors.Is(err, task.ErrInterrupted) {
			err = problem.Invalidf("", "%s: %v", name, err)
		}
		return f, err
	}
	from := lines.NewReader(in, lines.MaxBytes)
	return &rowReader{next: func() (Row, error) {
		l, err := from.Next()
		if err != nil {
			return Row{}, err
		}
		return rowOf(l), nil
	}}, nil
}

func newCSV(ctx context.Context, in io.ReadSeeker, form place.CSV) (f *rowReader, err error) {
	form.Keyless = true
	if _, err := in.Seek(0, io.SeekStart); err == nil { // the file is not a pipe
		if form, err = form.Learn(ctx, in); err != nil {
			return nil, err
		}
		if _, err := in.Seek(0, io.SeekStart); err != nil {
			return nil, err
		}
	}
	header, next, err := form.Records(in)
	return &rowReader{header: header, next: func() (Row, error) {
		r, err := next()
		row := Row{Line: r.Line, Text: r.Text, Err: r.Err}
		if err == nil && r.Err == nil {
			row.Record, row.Err = record.Parse(objectOf(r.Properties))
		}
		return row, err
	}}, err
}

func objectOf(properties []storage.Property) []byte {
	b := []byte{'{'}
	add := func(name string, value []byte) {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b, _ = jsontext.AppendQuote(b, name) // the name is valid, because the line of column names was checked
		b = append(append(b, ':'), value...)
	}
	for _, p := range properties {
		if p.Type != storage.String {
			add(p.Name+"@odata.type", []byte(`"`+p.Type.String()+`"`))
		}
		add(p.Name, p.Value)
	}
	return append(b, '}')
}

func (f *rowReader) skip(rows int) error {
	for range rows {
		if _, err := f.next(); err != nil {
			return err
		}
	}
	return nil
}

// forEach calls fn with at most n rows at a time, until the file ends or fn fails. If ctx ends, forEach returns
// [task.ErrInterrupted]. If reading fails, forEach still calls fn with the rows that were already read.
func (f *rowReader) forEach(ctx context.Context, n int, fn func([]Row) error) error {
	for {
		var rows []Row
		var row Row
		var err error
		for size := 0; len(rows) < n && size < maxBytes; size += len(row.Text) {
			if row, err = f.next(); err != nil {
				break
			}
			rows = append(rows, row)
		}
		if ctx.Err() != nil {
			return task.ErrInterrupted
		}
		if len(rows) > 0 {
			if err := fn(rows); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Arriving calls fn with rows as their JSON lines arrive. Each call of fn gets rows that have arrived since the last call; see
// [lines.Arriving]. After an interrupt, Arriving calls fn with the rows that were read, and returns [task.ErrInterrupted].
func Arriving(ctx context.Context, in io.Reader, fn func([]Row) error) error {
	err := lines.Arriving(ctx, in, func(some []lines.Line) error {
		rows := make([]Row, len(some))
		for i, l := range some {
			rows[i] = rowOf(l)
		}
		return fn(rows)
	})
	if err != nil && errors.Is(err, ctx.Err()) {
		return task.ErrInterrupted
	}
	return err
}

// rowError is a storage error that occurred while a row was written.
type rowError struct {
	Line int
	Err  error
}

func (e *rowError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

func (e *rowError) Unwrap() error { return e.Err }

// Write writes several rows at the same time. But it writes rows of the same record one after another, in their order. For each
// row, it calls the function `write`, such as the catalog's Insert. It calls the function `show` with each row's result, in the
// order of the rows. If a row was refused, the result's Err is the reason, and the other rows are still written. If the storage
// fails for some rows, Write shows only the results of the other rows, and afterwards returns a [rowError].
func Write(ctx context.Context, c *catalog.Catalog, rows []Row, write func(context.Context, record.Record) (catalog.Written, error), show func(Row, catalog.Result) error) error {
	var records record.Decoded
	for _, row := range rows {
		if row.Err == nil {
			records = append(records, row.Record)
		}
	}
	results := c.WriteAll(ctx, records, func(ctx context.Context, i int) (catalog.Written, error) { return write(ctx, records[i]) })
	var failed error
	for _, row := range rows {
		result := catalog.Result{Err: row.Err}
		if row.Err == nil {
			result, results = results[0], results[1:]
			if result.Err != nil && !aboutRecord(result.Err) {
				failed = cmp.Or(failed, error(&rowError{row.Line, result.Err}))
				continue
			}
		}
		if err := show(row, result); err != nil {
			return err
		}
	}
	return failed
}

// aboutRecord reports whether a write's error concerns only its record.
func aboutRecord(err error) bool {
	return errors.As(err, new(*problem.Error)) && problem.Status(err) < 500
}
