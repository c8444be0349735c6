package storage

import (
	"bytes"
	"errors"
	"fmt"
)

// ParseLines reads rows in the form of [Entity.AppendJSON], one per line. An annotation may come before or after its property.
// ParseLines reads a Timestamp, and ignores odata members and nulls. The rows do not share memory with `text`. An error names the line.
func ParseLines(text []byte) ([]Row, error) {
	if rows, ok := plainLines(text); ok {
		return rows, nil
	}
	d := newDecoder(text)
	var rows []Row
	for len(bytes.TrimSpace(text[d.dec.InputOffset():])) > 0 {
		e := d.readEntity()
		if d.err != nil {
			return nil, fmt.Errorf("line %d: %w", 1+bytes.Count(text[:d.dec.InputOffset()], []byte("\n"))+countLineEnds(text[d.dec.InputOffset():]), d.err)
		}
		rows = append(rows, e.Row())
	}
	return rows, nil
}

// ParseLine reads a row that any program may have written. Unlike [ParseLines], it reads a whole number beyond Int32 as an Int64, because the writer
// probably meant that value. If a table would change a value, the error is [Inexact], and the caller may use only the key of the returned row.
func ParseLine(text []byte) (Row, error) {
	r := rowReader{in: text, out: make([]byte, 0, len(text)+len(text)/8), names: map[string]string{}, foreign: true}
	if r.readRow() {
		if r.skipSpace(); r.at == len(text) {
			r.share(r.out)
			return r.rows[0], nil
		}
	}
	d := newDecoder(text)
	d.foreign = true
	e := d.readEntity()
	switch {
	case d.err != nil:
		return Row{}, d.err
	case len(bytes.TrimSpace(text[d.dec.InputOffset():])) > 0:
		return Row{}, errors.New("there is text after the row; a line must contain only one row")
	}
	return e.Row(), d.inexact
}

// countLineEnds counts the line ends at the start of text.
func countLineEnds(text []byte) int {
	return bytes.Count(text[:len(text)-len(bytes.TrimLeft(text, " \t\r\n"))], []byte("\n"))
}

// plainLines reads rows from lines with one row each. The rows must have the form that [plainPage] accepts. For any other form, the result is false.
func plainLines(text []byte) ([]Row, bool) {
	r := rowReader{in: text, out: make([]byte, 0, len(text)+len(text)/8), names: map[string]string{}}
	for r.skipSpace(); r.at < len(text); r.skipSpace() {
		if !r.readRow() {
			return nil, false
		}
	}
	r.share(r.out)
	return r.rows, true
}
