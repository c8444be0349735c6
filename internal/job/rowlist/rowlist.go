// Package rowlist reads and writes lists of rows. A list is a file with a JSON object in each line. Only the object's PartitionKey and RowKey matter.
// A job writes such a list of its failed rows, with the reasons. The output of a scan is also a list. A job may process a list's rows instead of a
// range.
package rowlist

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"tablesweep/internal/action"
	"tablesweep/internal/file"
	"tablesweep/internal/input"
	"tablesweep/internal/input/lines"
	"tablesweep/internal/job/sweep"
	"tablesweep/internal/key"
	"tablesweep/internal/task"
)

// Line is a line of a list of failed rows.
type Line struct {
	PartitionKey string
	RowKey       string
	Reason       string `json:"reason,omitempty"`
}

// Read returns the keys of a list that lie within a range, and a digest of the whole list. If ctx ends, Read
// fails with [task.ErrInterrupted].
func Read(ctx context.Context, in io.Reader, within key.Range) (keys *sweep.Keys, digest string, err error) {
	keys = &sweep.Keys{}
	sum := sha256.New()
	list := lines.NewReader(io.TeeReader(in, sum), lines.MaxBytes)
	for err == nil {
		err = addKey(ctx, list, within, keys)
	}
	if errors.Is(err, io.EOF) {
		err = keys.Fit()
	}
	if err != nil {
		return nil, "", err
	}
	return keys, hex.EncodeToString(sum.Sum(nil)), nil
}

func addKey(ctx context.Context, list *lines.Reader, within key.Range, keys *sweep.Keys) error {
	l, err := list.Next()
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return task.ErrInterrupted
	}
	var row struct{ PartitionKey, RowKey *string }
	err = input.Part(l.Text, &row) // reads only the keys, because rows that a scan has printed have further properties
	if err == nil && (row.PartitionKey == nil || row.RowKey == nil) {
		err = errors.New("PartitionKey or RowKey is missing")
	}
	if err != nil {
		return fmt.Errorf("line %d must be a JSON object with PartitionKey and RowKey: %w", l.Number, err)
	}
	one := key.Key{Partition: *row.PartitionKey, Row: *row.RowKey}
	if within.Contains(one) {
		keys.Add(one)
	}
	return nil
}

// Writer appends failed rows to a file. The file may be a device or a pipe. The writer stops waiting for the file when the context of [Create]
// or [Continue] ends.
type Writer struct {
	file    *os.File
	to      io.Writer // the file, or for a terminal a writer that removes control characters
	durable bool
}

// Create makes a list. For an existing file, which may be the list of another job, it returns [os.ErrExist]. If `durable` is true, rows are on the disk
// when [Writer.Add] returns.
func Create(ctx context.Context, path string, durable bool) (*Writer, error) {
	mode := os.O_CREATE | os.O_WRONLY
	if info, err := os.Stat(path); err != nil || info.Mode().IsRegular() {
		mode |= os.O_EXCL
	}
	return open(ctx, path, mode, durable)
}

// ErrNoList means that [Continue] refuses a file, because the file's end was not written by [Writer.Add].
var ErrNoList = errors.New("is not a list of failed rows")

// Continue continues a list, or makes it. If a process died while writing the last line, Continue removes this line. If the file's end was not
// written by [Writer.Add], Continue fails with [ErrNoList] and changes nothing.
func Continue(ctx context.Context, path string, durable bool) (*Writer, error) {
	w, err := open(ctx, path, os.O_CREATE|os.O_RDWR|os.O_APPEND, durable)
	if err != nil {
		return nil, err
	}
	if err := w.dropCutLine(); err != nil {
		return nil, errors.Join(err, w.file.Close())
	}
	return w, nil
}

// Remove removes a list, if it exists. It keeps a file that [Continue] refuses.
func Remove(ctx context.Context, path string) error {
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	w, err := Continue(ctx, path, false)
	if err == nil {
		err = errors.Join(w.file.Close(), os.Remove(path))
	}
	return err
}

func open(ctx context.Context, path string, mode int, durable bool) (*Writer, error) {
	f, err := file.OpenPipe(ctx, path, mode, 0o600)
	if err != nil {
		return nil, err
	}
	w := &Writer{f, f, durable}
	if info, err := f.Stat(); err == nil && !info.Mode().IsRegular() {
		w.to = lines.NewPlainWriter(f)
	}
	return w, nil
}

func (w *Writer) dropCutLine() error {
	info, err := w.file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	start := max(0, info.Size()-lines.MaxBytes)
	tail := make([]byte, info.Size()-start)
	if _, err := w.file.ReadAt(tail, start); err != nil {
		return err
	}
	whole := tail[:bytes.LastIndexByte(tail, '\n')+1]
	cut := tail[len(whole):]
	last := whole[bytes.LastIndexByte(bytes.TrimSuffix(whole, []byte("\n")), '\n')+1:]
	switch {
	case len(whole) > 0 && !isRow(last) || !bytes.HasPrefix(cut, []byte(rowBegin)[:min(len(cut), len(rowBegin))]):
		return fmt.Errorf("%s %w", w.file.Name(), ErrNoList)
	case isRow(cut):
		_, err = w.file.WriteString("\n")
		return err
	}
	return w.file.Truncate(start + int64(len(whole)))
}

// rowBegin is the beginning of each line that Add writes.
const rowBegin = `{"PartitionKey":"`

// isRow reports whether Add may have written the line.
func isRow(line []byte) bool {
	var row struct {
		PartitionKey, RowKey *string
		Reason               string `json:"reason"`
	}
	return input.JSON(line, &row) == nil && row.PartitionKey != nil && row.RowKey != nil
}

// Add appends rows.
func (w *Writer) Add(rows []action.Failure) error {
	var text bytes.Buffer
	e := lines.JSON(&text)
	for _, r := range rows {
		if err := e.Encode(Line{r.Key.Partition, r.Key.Row, r.Reason}); err != nil {
			return err
		}
	}
	if _, err := w.to.Write(text.Bytes()); err != nil || !w.durable {
		return err
	}
	if err := w.file.Sync(); !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, syscall.EINVAL) { // a pipe has no disk, so these errors are ignored
		return err
	}
	return nil
}

// Close closes the file. If `unused` is true, the job will not be resumed, so Close removes an empty file, which would block the job's next start.
func (w *Writer) Close(unused bool) error {
	info, err := w.file.Stat()
	if err == nil && unused && info.Mode().IsRegular() && info.Size() == 0 {
		err = os.Remove(w.file.Name())
	}
	return errors.Join(err, w.file.Close())
}
