package place

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"
	"strconv"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"tablesweep/internal/file"
	"tablesweep/internal/input"
	"tablesweep/internal/input/lines"
	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

const (
	windowRows  = 50_000
	windowBytes = 16 << 20
	maxWindow   = 128 << 20 // the maximum window that the zstd tool accepts by default
)

// Rows are rows in memory, in table order. They answer queries as a table does.
type Rows []storage.Row

// Address implements [storage.Source].
func (Rows) Address() string { return "" }

// Read implements [storage.Source].
func (r Rows) Read(_ context.Context, _ storage.RequestOptions, q storage.Query) (p storage.Page, queries int, err error) {
	w, err := newWindow(q)
	if err != nil {
		return p, 1, err
	}
	i := sort.Search(len(r), func(i int) bool { return q.Range.Side(r[i].Key) >= 0 })
	if q.Token != nil {
		if i, err = strconv.Atoi(q.Token.Partition); err != nil {
			return p, 1, err
		}
	}
	end := min(len(r), i+storage.PageRows)
	rest, ended := w.take(r[i:end], &p)
	for _, row := range p.Rows {
		p.Bytes += len(row.JSON())
	}
	if i = end - len(rest); !ended && i < len(r) {
		p.Next = &key.Token{Partition: strconv.Itoa(i)}
	}
	return p, 1, nil
}

// Lines returns the next row and its number of bytes. The rows may be in any order. After the last row, the error is [io.EOF].
type Lines func() (row storage.Row, bytes int, err error)

// The errors for a text that is not in the format JSON lines.
var (
	ErrArray    = errors.New("it begins an array")
	ErrSpread   = errors.New("it ends in the middle of an object")
	ErrNoObject = errors.New("it does not begin with {") // used only for the first line
)

// JSONLines reads rows from lines with one JSON object each. If storing a row in a table would change a value, the error is a
// [BadLine], and the next lines can still be read. After any other error, they cannot.
func JSONLines(from io.Reader) Lines {
	in := lines.NewReader(from, maxLine)
	return func() (row storage.Row, bytes int, err error) {
		line, err := in.Next()
		if err != nil {
			return row, 0, err
		}
		row, err = storage.ParseLine(line.Text)
		var inexact *storage.Inexact
		switch {
		case !utf8.Valid(line.Text): // decoding would replace invalid bytes in the names of properties
			err = lines.NotUTF8(line.Text)
		case errors.As(err, &inexact):
			return row, 0, &BadLine{line.Number, row.Key, err}
		case err == nil:
			return row, len(line.Text), nil
		case line.Text[0] == '[':
			err = ErrArray
		case line.Number == 1 && line.Text[0] != '{':
			err = ErrNoObject
		}
		err = input.Located(line.Text, err)
		_, next := in.Next()
		switch {
		case next != nil && !errors.Is(next, io.EOF): // the line is incomplete
			return row, 0, next
		case next == nil && errors.Is(err, io.ErrUnexpectedEOF):
			err = ErrSpread
		}
		return row, 0, fmt.Errorf("line %d is not a row: %w", line.Number, err)
	}
}

// Windows calls fn with windows of rows. Each window is sorted, and ends at 50,000 rows or about 16 MiB. If several
// rows of a window have the same key, the window keeps only the last. If `merge` is true, this row also gets the
// properties that only the earlier rows have. The second argument of fn is the number of rows that the window has
// not kept. Windows calls the function `bad` with each [BadLine]. If `bad` is nil, Windows stops at the first
// BadLine and returns it.
func Windows(next Lines, merge bool, bad func(*BadLine) error, fn func(rows Rows, repeated int) error) error {
	var rows Rows
	size := 0
	flush := func() error {
		slices.SortStableFunc(rows, func(a, b storage.Row) int { return a.Key.Compare(b.Key) })
		window := make(Rows, 0, len(rows))
		for _, row := range rows {
			last := len(window) - 1
			if last < 0 || window[last].Key != row.Key {
				window = append(window, row)
				continue
			}
			if merge {
				row = row.MergedInto(window[last])
			}
			window[last] = row
		}
		repeated := len(rows) - len(window)
		rows, size = nil, 0
		return fn(window, repeated)
	}
	for {
		row, bytes, err := next()
		var line *BadLine
		switch {
		case errors.As(err, &line) && bad != nil:
			if err := bad(line); err != nil {
				return err
			}
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return err
		case err == nil:
			rows = append(rows, row)
			size += bytes
		}
		if len(rows) > 0 && (err != nil || len(rows) == windowRows || size >= windowBytes) {
			if err := flush(); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

// OpenFile opens a file of JSON lines, and decompresses it according to its name. The file may be a pipe. When ctx
// ends, OpenFile stops waiting for the pipe.
func OpenFile(ctx context.Context, path string) (io.ReadCloser, error) {
	f, err := file.OpenPipe(ctx, path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	r := struct {
		io.Reader
		io.Closer
	}{f, f}
	switch CompressOf(path) {
	case Zstd: // needs no closing, because it decodes in the reader's goroutine
		r.Reader, err = zstd.NewReader(f, zstd.WithDecoderLowmem(true), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
	case Gzip:
		r.Reader, err = gzip.NewReader(f)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return r, nil
}
