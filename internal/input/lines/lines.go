// Package lines reads text with one item per line: records, events or keys. It also writes JSON with one value per line.
package lines

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sync/semaphore"

	"tablesweep/internal/task"
)

const (
	// MaxBytes is the maximum length of a line. It exceeds the length of the longest possible record.
	MaxBytes = 4 << 20
	// maxAhead is the maximum number of lines that [Arriving] reads ahead, and the maximum that it passes on in one call.
	maxAhead = 1000
)

// ByteOrderMark is the first character of files that some programs write, mostly on Windows.
const ByteOrderMark = "\ufeff"

// NotUTF8 returns the error for a text that is not UTF-8. It recognizes UTF-16.
func NotUTF8(text []byte) error {
	if bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) {
		return errors.New(`it is UTF-16; save it as UTF-8, which Excel calls "CSV UTF-8"`)
	}
	return errors.New("it is not UTF-8")
}

// JSON returns an encoder that writes one value per line, and leaves <, > and & unescaped.
func JSON(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e
}

// Line is a line of the input, without the white space around its text. It is never blank.
type Line struct {
	Number int // the first line of the input is 1
	Text   []byte
}

// Reader reads lines and skips blank lines. Create it with [NewReader].
type Reader struct {
	scanner *bufio.Scanner
	limit   int // maximum bytes of a line
	number  int
}

// NewReader returns a reader of an input whose lines have at most limit bytes, such as [MaxBytes].
func NewReader(in io.Reader, limit int) *Reader {
	r := &Reader{scanner: bufio.NewScanner(in), limit: limit}
	r.scanner.Buffer(nil, limit)
	return r
}

// Next returns the next line, or [io.EOF] after the last line.
func (r *Reader) Next() (Line, error) {
	for r.scanner.Scan() {
		text := r.scanner.Bytes()
		if r.number++; r.number == 1 {
			text = bytes.TrimPrefix(text, []byte(ByteOrderMark))
		}
		if text = bytes.TrimSpace(text); len(text) > 0 {
			return Line{r.number, bytes.Clone(text)}, nil
		}
	}
	switch err := r.scanner.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return Line{}, fmt.Errorf("line %d is longer than %d bytes", r.number+1, r.limit)
	case err != nil:
		return Line{}, fmt.Errorf("at line %d: %w", r.number, err)
	}
	return Line{}, io.EOF
}

// Arriving passes the lines of an input to fn as they arrive, until the input ends or fn fails. Each call gets the
// lines that have arrived since the last call. A call gets no more lines once it has 1,000 lines or [MaxBytes] bytes of
// text. When ctx ends, fn still gets the lines that were read. Afterwards, Arriving returns the error of ctx, even
// if a read of the input is still blocked.
func Arriving(ctx context.Context, in io.Reader, fn func([]Line) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	arrived := make(chan Line, maxAhead)
	room := semaphore.NewWeighted(MaxBytes) // limits the bytes of the lines that were read ahead
	var reading task.Group
	reading.Go(func() error { // ends when the input or the process ends
		defer close(arrived)
		return send(ctx, NewReader(in, MaxBytes), arrived, room)
	})
	for {
		var some []Line
		size := 0
		take := func(l Line) {
			room.Release(int64(len(l.Text)))
			some, size = append(some, l), size+len(l.Text)
		}
		select {
		case l, ok := <-arrived:
			if !ok {
				return reading.Wait()
			}
			take(l)
		case <-ctx.Done():
			if len(arrived) == 0 {
				return ctx.Err()
			}
		}
		for len(arrived) > 0 && len(some) < maxAhead && size < MaxBytes {
			take(<-arrived)
		}
		if err := fn(some); err != nil {
			return err
		}
	}
}

// send sends all lines. Before it sends a line, it waits until there is room for the line's text.
func send(ctx context.Context, from *Reader, to chan<- Line, room *semaphore.Weighted) error {
	for {
		l, err := from.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = room.Acquire(ctx, int64(len(l.Text)))
		}
		if err != nil {
			return err
		}
		select {
		case to <- l:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
