package place

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"tablesweep/internal/input/lines"
	"tablesweep/internal/key"
	"tablesweep/internal/odata"
	"tablesweep/internal/storage"
)

// CSV is how Azure Storage Explorer writes rows: PartitionKey, RowKey, Timestamp, and for each property a column and one of its type, such
// as Name and Name@type. A row without a property has neither value nor type there; an empty text has a type. Where a file has no types,
// texts are Strings, unless Types says more, or the first row does.
type CSV struct {
	Delimiter byte                    // 0 for a comma
	Types     map[string]storage.Type // of columns without types, by their names
}

const (
	timestampName = "Timestamp"
	typeColumn    = "@type" // ends the name of a column of types
	maxColumns    = 10_000
)

// BadLine is a line that is no row, in an input that goes on.
type BadLine struct {
	Line int
	Key  key.Key // as far as it is known
	Err  error
}

func (b *BadLine) Error() string { return fmt.Sprintf("line %d is no row: %v", b.Line, b.Err) }

func (b *BadLine) Unwrap() error { return b.Err }

// csvReader reads rows of CSV.
type csvReader struct {
	CSV
	in      *bufio.Reader
	ended   int // lines
	columns []csvColumn
	keys    [2]int // the columns of the keys
	begun   bool   // the first row was read
}

// csvColumn is a column of a property, or of a key.
type csvColumn struct {
	name  string
	typed int          // the column of its types, -1 if there is none
	usual storage.Type // where no type stands
	skip  bool         // it is one of types, or of nothing that a row keeps
}

// Lines reads rows of CSV. A [BadLine] does not end it. Where quotes don't match across lines, nobody knows where the next row begins: that
// ends it.
func (c CSV) Lines(from io.Reader) Lines {
	c.Delimiter = cmp.Or(c.Delimiter, ',')
	r := &csvReader{CSV: c, in: bufio.NewReaderSize(from, 64<<10)}
	return func() (storage.Entity, int, error) {
		if r.columns == nil {
			if err := r.header(); err != nil {
				return storage.Entity{}, 0, err
			}
		}
		for {
			rec, err := r.record()
			switch {
			case err != nil:
				return storage.Entity{}, 0, err
			case rec.blank():
				continue
			case rec.wrong == nil && len(rec.cells) != len(r.columns):
				rec.wrong = fmt.Errorf("it has %d cells, and the first line has %d", len(rec.cells), len(r.columns))
			case rec.wrong == nil && (strings.Contains(rec.cells[r.keys[0]], "\n") || strings.Contains(rec.cells[r.keys[1]], "\n")):
				rec.wrong = errors.New("its key has a line break, which no key has")
			}
			if rec.wrong != nil && rec.last > rec.line {
				return storage.Entity{}, 0, fmt.Errorf("lines %d to %d are no row: %w; since a cell with quotes goes on over lines there, nothing behind it can be told", rec.line, rec.last, rec.wrong)
			}
			var row storage.Entity
			if rec.wrong == nil {
				row, rec.wrong = r.row(rec.cells)
			}
			if rec.wrong != nil {
				return row, 0, &BadLine{rec.line, row.Key, rec.wrong}
			}
			return row, rec.bytes, nil
		}
	}
}

// csvRecord is what stands between two ends of rows.
type csvRecord struct {
	cells             []string
	line, last, bytes int
	wrong             error
}

func (c csvRecord) blank() bool { return len(c.cells) == 1 && c.cells[0] == "" && c.wrong == nil }

// record reads the next one. The error is [io.EOF] behind the last one.
func (r *csvReader) record() (rec csvRecord, err error) {
	const (
		begins = iota
		plain
		quoted
		closed
	)
	state, rec := begins, csvRecord{line: r.ended + 1}
	var cell []byte
	end := func() {
		rec.cells = append(rec.cells, string(cell))
		cell, state = cell[:0], begins
	}
	wrong := func(text string) { rec.wrong = cmp.Or(rec.wrong, errors.New(text)) }
	for {
		b, err := r.in.ReadByte()
		rec.last = r.ended + 1
		switch {
		case errors.Is(err, io.EOF) && rec.bytes == 0:
			return rec, io.EOF
		case errors.Is(err, io.EOF):
			if state == quoted {
				wrong("a quote is not closed")
				rec.last = max(rec.last, rec.line+1) // it would have gone on
			}
			end()
			return rec, nil
		case err != nil:
			return rec, fmt.Errorf("at line %d: %w", r.ended+1, err)
		}
		if rec.bytes++; rec.bytes > maxLine {
			return rec, fmt.Errorf("the row at line %d is longer than %d bytes", rec.line, maxLine)
		}
		switch {
		case state == quoted && b == '"':
			state = closed
		case state == quoted:
			if cell = append(cell, b); b == '\n' {
				r.ended++
			}
		case state == closed && b == '"':
			cell, state = append(cell, b), quoted
		case b == r.Delimiter:
			end()
		case b == '\n':
			r.ended++
			if n := len(cell); state == plain && cell[n-1] == '\r' {
				cell = cell[:n-1]
			}
			end()
			return rec, nil
		case state == begins && b == '"':
			state = quoted
		case state == closed:
			if next, _ := r.in.Peek(1); b != '\r' || len(next) == 1 && next[0] != '\n' {
				wrong("text stands behind a closing quote")
			}
		default:
			if b == '"' {
				wrong("a quote stands in a cell that does not begin with one")
			}
			cell, state = append(cell, b), plain
		}
	}
}

// header reads the columns.
func (r *csvReader) header() error {
	if mark, _ := r.in.Peek(len(lines.ByteOrderMark)); string(mark) == lines.ByteOrderMark {
		_, _ = r.in.Discard(len(mark))
	}
	peek, _ := r.in.Peek(2)
	begin := slices.Clone(peek)
	rec, err := r.record()
	if !utf8.ValidString(strings.Join(rec.cells, "")) {
		err = cmp.Or(err, lines.NotUTF8(begin))
	}
	if errors.Is(err, io.EOF) {
		return errors.New("it is empty, and has no line of columns")
	}
	if err == nil {
		err = rec.wrong
	}
	at := map[string]int{}
	for i, name := range rec.cells {
		if _, twice := at[name]; twice && err == nil {
			err = fmt.Errorf("it has the column %.100q twice", name)
		}
		at[name] = i
	}
	for i, name := range []string{odata.PartitionKey, odata.RowKey} {
		var there bool
		if r.keys[i], there = at[name]; !there && err == nil {
			err = fmt.Errorf("it has no column %s; the first line has the names of columns", name)
			for _, d := range []string{",", ";", "\t", "|"} {
				if len(rec.cells) == 1 && strings.Contains(rec.cells[0], d) {
					err = fmt.Errorf("%w, and seems to have %q between them: --delimiter says so", err, d)
				}
			}
		}
	}
	for i, name := range rec.cells {
		of, types := strings.CutSuffix(name, typeColumn)
		typed, hasTypes := at[name+typeColumn]
		c := csvColumn{name: name, typed: -1, skip: types || name == timestampName || strings.HasPrefix(name, "odata.")}
		if c.usual = r.Types[name]; hasTypes {
			c.typed = typed
		}
		_, known := at[of]
		switch {
		case err != nil:
		case types && !known:
			err = fmt.Errorf("it has the column %.100q, but no column %.100q", name, of)
		case !c.skip && !storage.IsPropertyName(name):
			err = fmt.Errorf("%.100q is no property's name; the first line has the names of columns", name)
		case i == maxColumns:
			err = fmt.Errorf("it has more than %d columns", maxColumns)
		}
		r.columns = append(r.columns, c)
	}
	for name := range r.Types {
		if _, there := at[name]; !there && err == nil {
			err = fmt.Errorf("--types has %s, and there is no such column", name)
		}
	}
	if err != nil {
		return fmt.Errorf("line 1: %w", err)
	}
	return nil
}

// row returns the row of cells, with its key if only others are wrong.
func (r *csvReader) row(cells []string) (e storage.Entity, err error) {
	first := !r.begun
	r.begun = true
	for i := range r.columns {
		c, text := &r.columns[i], cells[i]
		switch {
		case c.skip:
			continue
		case c.name == odata.PartitionKey:
			e.Key.Partition = text
		case c.name == odata.RowKey:
			e.Key.Row = text
		default:
			t, typed, typeErr := c.typeOf(cells)
			if typed && first {
				if _, told := r.Types[c.name]; !told {
					c.usual = t
				}
			}
			if typeErr != nil || text == "" && !typed {
				err = cmp.Or(err, typeErr)
				continue
			}
			p, textErr := storage.ParseProperty(c.name, t, text)
			if textErr != nil {
				err = cmp.Or(err, fmt.Errorf("%s %w, and is %.100q", c.name, textErr, text))
			}
			e.Properties = append(e.Properties, p)
		}
	}
	if err == nil && !(utf8.ValidString(e.Key.Partition) && utf8.ValidString(e.Key.Row)) {
		err = errors.New("its key is not valid Unicode")
	}
	return e, err
}

// typeOf returns the type of a cell, and whether it is told beside it.
func (c csvColumn) typeOf(cells []string) (t storage.Type, typed bool, err error) {
	if c.typed < 0 || cells[c.typed] == "" {
		return c.usual, false, nil
	}
	name := cells[c.typed]
	if t, typed = odata.ParseType("Edm." + strings.TrimPrefix(name, "Edm.")); !typed {
		err = fmt.Errorf("%s has the type %.100q, which no property has", c.name, name)
	}
	return t, typed, err
}

// Columns are those that CSV is written in. First it sees all rows, and then it writes them.
type Columns struct {
	CSV
	// Lossy, if set, is called with a row and a property whose text is not valid Unicode, and is written with U+FFFD.
	Lossy func(k key.Key, name string)

	names []string
	at    map[string]int
	last  *storage.Column // of the rows that were seen, whose columns many share
}

// See adds the columns of rows.
func (c *Columns) See(rows []storage.Entity) error {
	for _, row := range rows {
		if len(row.Columns) > 0 && &row.Columns[0] == c.last {
			continue
		}
		for _, one := range row.Columns {
			c.add(one.Name)
		}
		if len(row.Columns) > 0 {
			c.last = &row.Columns[0]
		}
		for _, p := range row.Properties {
			c.add(p.Name)
		}
		if len(c.names) > maxColumns {
			return fmt.Errorf("CSV has a column a property, and the rows have more than %d; --select chooses some, and JSON lines hold any", maxColumns)
		}
	}
	return nil
}

func (c *Columns) add(name string) {
	if c.at == nil {
		c.at = map[string]int{}
	}
	if _, known := c.at[name]; !known {
		c.at[name] = len(c.names)
		c.names = append(c.names, name)
	}
}

// Header returns the first line.
func (c *Columns) Header() []byte {
	c.Delimiter = cmp.Or(c.Delimiter, ',')
	all := []string{odata.PartitionKey, odata.RowKey, timestampName}
	for _, name := range c.names {
		all = append(all, name, name+typeColumn)
	}
	return append([]byte(strings.Join(all, string(c.Delimiter))), "\r\n"...)
}

// Append appends lines of rows with properties. It fails over a property that it has not seen.
func (c *Columns) Append(b []byte, rows []storage.Entity) ([]byte, error) {
	for _, row := range rows {
		b = c.cell(append(c.cell(b, row.Key.Partition), c.Delimiter), row.Key.Row)
		if b = append(b, c.Delimiter); !row.Timestamp.IsZero() {
			b = append(b, storage.TimeProperty("", row.Timestamp).Text()...)
		}
		own := make([]*storage.Property, len(c.names))
		for i, p := range row.Properties {
			at, known := c.at[p.Name]
			if !known {
				return b, fmt.Errorf("PartitionKey %q RowKey %q has the property %s, which no row had when the columns were looked for; run it again", row.Key.Partition, row.Key.Row, p.Name)
			}
			own[at] = &row.Properties[i]
		}
		for _, p := range own {
			if b = append(b, c.Delimiter); p == nil {
				b = append(b, c.Delimiter)
				continue
			}
			text, whole := p.Lossy()
			if !whole && c.Lossy != nil {
				c.Lossy(row.Key, p.Name)
			}
			b = append(append(c.cell(b, text), c.Delimiter), p.Type.String()...)
		}
		b = append(b, "\r\n"...)
	}
	return b, nil
}

// cell appends a cell, in quotes if it needs them.
func (c *Columns) cell(b []byte, text string) []byte {
	if !strings.ContainsAny(text, "\"\r\n") && strings.IndexByte(text, c.Delimiter) < 0 {
		return append(b, text...)
	}
	b = append(b, '"')
	b = append(b, strings.ReplaceAll(text, `"`, `""`)...)
	return append(b, '"')
}

// CheckDelimiter refuses what can't stand between cells.
func CheckDelimiter(d string) error {
	if len(d) != 1 || !strings.Contains(",;\t|:~^#", d) {
		return fmt.Errorf("is %q, want one of a comma, a semicolon, a tab, and | : ~ ^ #", d)
	}
	return nil
}
