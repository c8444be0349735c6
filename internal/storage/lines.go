package storage

import (
	"bytes"
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
