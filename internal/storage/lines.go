package storage

import (
	"bytes"
	"errors"
	"fmt"
)

// ParseLines reads rows as [Entity.AppendJSON] writes them, one a line. It takes annotations before and
// behind their property, reads a Timestamp, and passes over odata members and nulls. With raw, entities have JSON in
// place of properties. They keep parts of text, which must not be changed afterwards. An error names the line.
func ParseLines(text []byte, raw bool) ([]Entity, error) {
	if raw {
		if rows, ok := rawLines(text); ok {
			return rows, nil
		}
	}
	d := newDecoder(text)
	var rows []Entity
	for len(bytes.TrimSpace(text[d.dec.InputOffset():])) > 0 {
		e := d.entity()
		if d.err != nil {
			return nil, fmt.Errorf("line %d: %w", 1+bytes.Count(text[:d.dec.InputOffset()], []byte("\n"))+blanks(text[d.dec.InputOffset():]), d.err)
		}
		if raw {
			e = e.asRaw()
		}
		rows = append(rows, e)
	}
	return rows, nil
}

// ParseLine reads a row that anybody may have written, as [ParseLines] does, but keeps its values as they are meant: a whole number that is no
// Int32 is an Int64. The error is an [Inexact] one, with the row's key, if a table would change a value.
func ParseLine(text []byte, raw bool) (Entity, error) {
	if raw {
		r := rawReader{in: text, out: make([]byte, 0, len(text)+len(text)/8), names: map[string]string{}, foreign: true}
		if r.row() {
			if r.skipSpace(); r.at == len(text) {
				r.share(r.out)
				return r.rows[0], nil
			}
		}
	}
	d := newDecoder(text)
	d.foreign = true
	e := d.entity()
	switch {
	case d.err != nil:
		return Entity{}, d.err
	case len(bytes.TrimSpace(text[d.dec.InputOffset():])) > 0:
		return Entity{}, errors.New("something follows the row; a line has one")
	case raw && d.inexact == nil:
		e = e.asRaw()
	}
	return e, d.inexact
}

// blanks counts the ends of lines that text begins with.
func blanks(text []byte) int {
	return bytes.Count(text[:len(text)-len(bytes.TrimLeft(text, " \t\r\n"))], []byte("\n"))
}

// rawLines reads rows as [rawPage] does.
func rawLines(text []byte) ([]Entity, bool) {
	r := rawReader{in: text, out: make([]byte, 0, len(text)+len(text)/8), names: map[string]string{}}
	for r.skipSpace(); r.at < len(text); r.skipSpace() {
		if !r.row() {
			return nil, false
		}
	}
	r.share(r.out)
	return r.rows, true
}
