// Package load writes many records into a catalog at once: those of a file, or those that
// arrive line by line.
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
	// maxRows is how many rows of a file are written at once, and maxBytes bounds their text.
	maxRows  = 1000
	maxBytes = 16 << 20
)

// FailedExt ends the name of the file that keeps an import's failed rows.
const FailedExt = ".failed"

// Row is a record of an input, or what is wrong with it.
type Row struct {
	Line   int
	Record record.Record
	Err    error
	Text   []byte // in the input, without the line's end
}

// rowOf reads a row from a line of JSON.
func rowOf(l lines.Line) Row {
	row := Row{Line: l.Number, Text: l.Text}
	row.Record, row.Err = record.Parse(l.Text)
	return row
}

// rowReader reads the rows of a file. newRowReader makes it.
type rowReader struct {
	header []byte // of CSV
	next   func() (Row, error)
}

// IsCSV reports whether a file has CSV: its name ends with .csv. A file of failed rows has the form of the imported one.
func IsCSV(name string) bool {
	for filepath.Ext(name) == FailedExt {
		name = strings.TrimSuffix(name, FailedExt)
	}
	return strings.EqualFold(filepath.Ext(name), ".csv")
}

// newRowReader returns a reader of the rows of a file with this name: CSV in a form, or JSON lines. A regular file of CSV is read once
// before, for the types of its columns.
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
	if _, err := in.Seek(0, io.SeekStart); err == nil { // no pipe
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

// objectOf returns properties as JSON of a record.
func objectOf(properties []storage.Property) []byte {
	b := []byte{'{'}
	add := func(name string, value []byte) {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b, _ = jsontext.AppendQuote(b, name) // which is valid, as the line of columns was
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

// skip reads rows that are done with.
func (f *rowReader) skip(rows int) error {
	for range rows {
		if _, err := f.next(); err != nil {
			return err
		}
	}
	return nil
}

// each calls fn with at most n rows at a time, until the file ends or fn fails. If ctx ends, it returns [task.ErrInterrupted]. What was read
// ahead of an error is not lost.
func (f *rowReader) each(ctx context.Context, n int, fn func([]Row) error) error {
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

// Arriving calls fn with the rows of JSON lines as they arrive: with all that wait, as
// [lines.Arriving] does. After an interrupt, fn gets what was read. Then Arriving returns
// [task.ErrInterrupted].
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

// rowError is an error of the storage when a row was written.
type rowError struct {
	Line int
	Err  error
}

func (e *rowError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

func (e *rowError) Unwrap() error { return e.Err }

// Write writes rows by the function write, such as the catalog's Insert, many at once, and those
// of the same record in their order. It calls show with each row's result, in their order; its
// Err says why this row failed. A failed row does not stop the others. Any other error is
// returned, as a [rowError], after the results of the other rows were shown.
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

// aboutRecord reports whether an error of a write is about its record alone.
func aboutRecord(err error) bool {
	return errors.As(err, new(*problem.Error)) && problem.Status(err) < 500
}
