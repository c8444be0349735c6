package place

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"tablesweep/internal/input/lines"
	"tablesweep/internal/key"
	"tablesweep/internal/key/odata"
	"tablesweep/internal/problem"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// CSV is the form in which Azure Storage Explorer writes rows. It has the columns PartitionKey, RowKey and Timestamp.
// Each property has a column of values, such as Name, and a column of types, such as Name@type. If a row lacks a
// property, both cells of the property are empty. If the property is an empty text, the cell of its value is empty, but
// the cell of its type is not. A text without a type gets the type that [CSV.Types] contains for its column. If CSV.Types
// lacks the column, and the file contains only one type for the column, the text gets this type. If the file contains
// several, the text gets the type of the first row's cell. If this cell has no type, the text becomes a String.
type CSV struct {
	Delimiter byte                    // 0 for a comma; a first line such as "sep=;" takes precedence
	Types     map[string]storage.Type // for each column, the type of the values that have no type in the file
	Keyless   bool                    // the rows, such as a catalog's records, have no PartitionKey and RowKey; the columns may have any names
	// Mixed, if set, is called for a column that has several types and also has texts without a type.
	Mixed func(text string)

	learned map[string]*columnTypes // the types that Learn found
}

const (
	timestampName = "Timestamp"
	typeColumn    = "@type" // a column of types has a name with this ending
	maxColumns    = 10_000
)

// columnTypes are the types that were read in a column so far.
type columnTypes struct {
	seen    []storage.Type // the different types
	first   bool           // the first row's cell has a type
	untyped int            // the line of the first text without a type; 0 for none
}

func (c *columnTypes) addType(t storage.Type, firstRow bool) {
	if !slices.Contains(c.seen, t) {
		c.seen = append(c.seen, t)
	}
	c.first = c.first || firstRow
}

// usualType returns the type for those texts of the column that have no type of their own.
func (c *columnTypes) usualType() storage.Type {
	if len(c.seen) == 1 || c.first {
		return c.seen[0]
	}
	return storage.String
}

func (c *columnTypes) mixed() bool { return len(c.seen) > 1 && c.untyped > 0 }

// BadLine is the error of a line that is not a row. The next lines can still be read.
type BadLine struct {
	Line int
	Key  key.Key // the key of the row, as far as it is known
	Err  error
}

func (b *BadLine) Error() string { return fmt.Sprintf("line %d is not a row: %v", b.Line, b.Err) }

func (b *BadLine) Unwrap() error { return b.Err }

type csvReader struct {
	CSV
	in      *bufio.Reader
	first   []byte // the text before the rows; used only if Keyless is true
	ended   int    // the number of lines read
	columns []csvColumn
	keys    [2]int // the indexes of the key columns; -1 for none
	rows    int    // the number of rows read so far
}

// csvColumn is a column of a property, or of a key.
type csvColumn struct {
	name   string
	typed  int           // the index of its column of types; -1 for none
	skip   bool          // set for columns that are not properties: Timestamp, odata.* and those that contain types
	given  *storage.Type // the type in [CSV.Types]; nil for none
	types  *columnTypes
	warned bool // Mixed was called for this column
}

func (c CSV) reader(from io.Reader) *csvReader {
	c.Delimiter = cmp.Or(c.Delimiter, ',')
	return &csvReader{CSV: c, in: bufio.NewReaderSize(from, 64<<10)}
}

// Learn reads a file to find the types of its columns, and returns a CSV for reading it again. An input that can be
// read only once, such as a pipe, is read without Learn. In that case, the types of later rows are not known, so a text
// without a type may get a wrong type. If a later row shows the mistake, reading fails. If ctx ends, the error is
// [task.ErrInterrupted].
func (c CSV) Learn(ctx context.Context, from io.Reader) (CSV, error) {
	r := c.reader(from)
	if err := r.readHeader(); err != nil {
		return c, err
	}
	c.learned = map[string]*columnTypes{}
	for i := range r.columns {
		if column := &r.columns[i]; column.typed >= 0 && !column.skip {
			c.learned[column.name] = column.types
		}
	}
	for len(c.learned) > 0 {
		rec, err := r.readRecord()
		switch {
		case ctx.Err() != nil:
			return c, task.ErrInterrupted
		case errors.Is(err, io.EOF):
			return c, nil
		case err != nil:
			return c, err
		case rec.wrong != nil && rec.last > rec.line: // [CSV.Lines] will also end at this line
			return c, nil
		case rec.blank() || rec.wrong != nil || !r.hasAllCells(&rec):
			continue
		}
		for i := range r.columns {
			column := &r.columns[i]
			if t, typed, err := column.typeOf(rec.cells); typed {
				column.types.addType(t, r.rows == 0)
			} else if err == nil && rec.cells[i] != "" && column.types.untyped == 0 {
				column.types.untyped = rec.line
			}
		}
		r.rows++
	}
	return c, nil
}

// Lines returns the rows of CSV. A [BadLine] does not end the input. An unclosed quote that extends over several lines ends the input, because the
// beginning of the next row is unknown.
func (c CSV) Lines(from io.Reader) Lines {
	r := c.reader(from)
	return func() (storage.Row, int, error) {
		if r.columns == nil {
			if err := r.readHeader(); err != nil {
				return storage.Row{}, 0, err
			}
		}
		rec, row, err := r.next()
		if err == nil && rec.wrong != nil {
			err = &BadLine{rec.line, row.Key, rec.wrong}
		}
		return row.Row(), rec.bytes, err
	}
}

// Record is a row without keys.
type Record struct {
	Line       int
	Text       []byte // the text in the file, without the line end
	Properties []storage.Property
	Err        error // the reason why the line is not a record
}

// Records reads CSV whose rows have no keys. Each call of the function `next` returns one row. The result `first` is
// the text before the rows, such as the line of column names.
func (c CSV) Records(from io.Reader) (first []byte, next func() (Record, error), err error) {
	r := c.reader(from)
	if err := r.readHeader(); err != nil {
		return nil, nil, err
	}
	return bytes.TrimRight(r.first, "\r\n"), func() (Record, error) {
		rec, row, err := r.next()
		return Record{rec.line, bytes.TrimRight(rec.text, "\r\n"), row.Properties, rec.wrong}, err
	}, nil
}

// next reads a record and converts it to a row. If the record is not a row, the field rec.wrong contains the reason.
func (r *csvReader) next() (rec csvRecord, row storage.Entity, err error) {
	for {
		rec, err = r.readRecord()
		switch {
		case err != nil:
			return rec, row, err
		case rec.blank():
			continue
		case rec.wrong == nil && !r.hasAllCells(&rec):
			rec.wrong = fmt.Errorf("it has %s, but the first line names %s", problem.Plural(len(rec.cells), "cell"), problem.Plural(len(r.columns), "column"))
		case rec.wrong == nil && slices.ContainsFunc(r.keys[:], func(i int) bool { return i >= 0 && strings.Contains(rec.cells[i], "\n") }):
			rec.wrong = errors.New("its key contains a line break, which keys cannot contain")
		}
		if rec.wrong != nil && rec.last > rec.line {
			return rec, row, fmt.Errorf("lines %d to %d are not a row: %w; because of the quotes in these lines, the command cannot tell where the next row begins; correct these lines", rec.line, rec.last, rec.wrong)
		}
		if rec.wrong == nil {
			row, rec.wrong, err = r.parseRow(rec)
		}
		return rec, row, err
	}
}

// hasAllCells reports whether a record has a cell for each column. It first removes empty cells beyond the last column,
// because spreadsheets write such cells.
func (r *csvReader) hasAllCells(rec *csvRecord) bool {
	for len(rec.cells) > len(r.columns) && rec.cells[len(rec.cells)-1] == "" {
		rec.cells = rec.cells[:len(rec.cells)-1]
	}
	return len(rec.cells) == len(r.columns)
}

type csvRecord struct {
	cells             []string
	text              []byte // the record's text with its line end; set only if Keyless is true
	line, last, bytes int
	wrong             error
}

func (c csvRecord) blank() bool { return len(c.cells) == 1 && c.cells[0] == "" && c.wrong == nil }

func (r *csvReader) readRecord() (rec csvRecord, err error) {
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
				rec.last = max(rec.last, rec.line+1) // because of the open quote, the record would continue on the next line
			}
			end()
			return rec, nil
		case err != nil:
			return rec, fmt.Errorf("at line %d: %w", r.ended+1, err)
		}
		if rec.bytes++; rec.bytes > maxLine {
			return rec, fmt.Errorf("the row at line %d is longer than %d bytes", rec.line, maxLine)
		}
		if r.Keyless {
			rec.text = append(rec.text, b)
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
				wrong("there is text after a closing quote")
			}
		default:
			if b == '"' {
				wrong("there is a quote in a cell that does not begin with a quote")
			}
			cell, state = append(cell, b), plain
		}
	}
}

func (r *csvReader) readHeader() error {
	if mark, _ := r.in.Peek(len(lines.ByteOrderMark)); string(mark) == lines.ByteOrderMark {
		_, _ = r.in.Discard(len(mark))
	}
	begin, _ := r.in.Peek(len("sep=;\n"))
	begin = slices.Clone(begin)
	if strings.HasPrefix(string(begin), "sep=") && len(begin) == len("sep=;\n") && strings.ContainsRune("\r\n", rune(begin[5])) {
		if err := CheckDelimiter(string(begin[4:5])); err != nil {
			return fmt.Errorf("line 1: the delimiter %w", err)
		}
		line, _ := r.in.ReadString('\n')
		r.first, r.Delimiter, r.ended = []byte(line), begin[4], 1
	}
	rec, err := r.readRecord()
	r.first = append(r.first, rec.text...)
	if !utf8.ValidString(strings.Join(rec.cells, "")) {
		err = cmp.Or(err, lines.NotUTF8(begin))
	}
	if errors.Is(err, io.EOF) {
		return errors.New("it is empty, but its first line must contain the names of columns")
	}
	if err = cmp.Or(err, rec.wrong); err == nil {
		err = r.setNames(rec.cells)
	}
	if err != nil {
		return fmt.Errorf("line %d: %w", rec.line, err)
	}
	return nil
}

func (r *csvReader) setNames(cells []string) error {
	var names []string
	at := map[string]int{}
	for i, text := range cells {
		name := r.columnName(text)
		if first, twice := at[name]; twice && name != "" {
			return fmt.Errorf("it has the column %.100q twice, as %.100q and %.100q; rename or remove one", name, cells[first], text)
		}
		at[name] = i
		names = append(names, name)
	}
	for len(names) > 1 && names[len(names)-1] == "" {
		names = names[:len(names)-1]
	}
	r.keys = [2]int{-1, -1}
	for i, name := range []string{odata.PartitionKey, odata.RowKey} {
		var there bool
		if r.Keyless {
			break
		}
		if r.keys[i], there = at[name]; !there {
			err := fmt.Errorf("it has no column %s; the first line must contain the names of columns", name)
			for _, d := range []string{",", ";", "\t", "|"} {
				if len(names) == 1 && strings.Contains(names[0], d) {
					err = fmt.Errorf("%w; the delimiter seems to be %q, so set it with --delimiter", err, d)
				}
			}
			return err
		}
	}
	for i, name := range names {
		of, types := strings.CutSuffix(name, typeColumn)
		typed, hasTypes := at[name+typeColumn]
		c := csvColumn{name: name, typed: -1, skip: types || !r.Keyless && (name == timestampName || strings.HasPrefix(name, "odata.")), types: &columnTypes{}}
		if hasTypes {
			c.typed = typed
		}
		if t, chosen := r.Types[name]; chosen {
			c.given = &t
		}
		if learned := r.learned[name]; learned != nil {
			c.types = learned
		}
		_, known := at[of]
		switch {
		case types && !known:
			return fmt.Errorf("it has the column %.100q, but no column %.100q", name, of)
		case !c.skip && (name == "" || !r.Keyless && !storage.IsPropertyName(name)):
			return fmt.Errorf("%.100q is not a property name; the first line must contain the names of columns", name)
		case i == maxColumns:
			return fmt.Errorf("it has more than %d columns", maxColumns)
		}
		r.columns = append(r.columns, c)
	}
	for name := range r.Types {
		if _, there := at[name]; !there {
			return fmt.Errorf("--types names %s, but there is no such column", name)
		}
	}
	return nil
}

// columnName returns a column's name in Explorer's form. In the header, the name may have blanks around it, the letters of
// a key's name may have any case, and a column of types may be called N@odata.type.
func (c CSV) columnName(text string) string {
	name, types := strings.TrimSpace(text), ""
	for _, end := range []string{"@odata.type", typeColumn} {
		if of, is := strings.CutSuffix(name, end); is {
			name, types = of, typeColumn
			break
		}
	}
	for _, k := range []string{odata.PartitionKey, odata.RowKey} {
		if !c.Keyless && strings.EqualFold(name, k) {
			name = k
		}
	}
	return name + types
}

// parseRow returns the row of a record. If the result `wrong` is not nil, it describes a mistake in this record, and the next records can still be
// read. If the mistake is not in the key, the row still has its key. If the result `err` is not nil, no more records are read.
func (r *csvReader) parseRow(rec csvRecord) (e storage.Entity, wrong, err error) {
	r.rows++
	for i := range r.columns {
		c, text := &r.columns[i], rec.cells[i]
		switch {
		case c.skip:
			continue
		case i == r.keys[0]:
			e.Key.Partition = text
		case i == r.keys[1]:
			e.Key.Row = text
		default:
			t, typed, typeErr := c.typeOf(rec.cells)
			if typeErr != nil || text == "" && !typed {
				wrong = cmp.Or(wrong, typeErr)
				continue
			}
			if t, err = r.decideType(c, t, typed, rec.line); err != nil {
				return e, nil, err
			}
			p, textErr := storage.ParseProperty(c.name, t, text)
			if textErr != nil {
				wrong = cmp.Or(wrong, fmt.Errorf("%s %w; it is %.100q", c.name, textErr, text))
			}
			e.Properties = append(e.Properties, p)
		}
	}
	if wrong == nil && !(utf8.ValidString(e.Key.Partition) && utf8.ValidString(e.Key.Row)) {
		wrong = errors.New("its key is not valid Unicode")
	}
	return e, wrong, nil
}

// decideType returns the type of a text. If [CSV.Learn] has not read the file before, decideType also records the type,
// because the type of a later text in the column may depend on it.
func (r *csvReader) decideType(c *csvColumn, t storage.Type, typed bool, line int) (storage.Type, error) {
	if c.given != nil {
		if !typed {
			t = *c.given
		}
		return t, nil
	}
	switch before := c.types.usualType(); {
	case r.learned != nil:
	case !typed:
		c.types.untyped = cmp.Or(c.types.untyped, line)
	default:
		if c.types.addType(t, r.rows == 1); c.types.untyped > 0 && c.types.usualType() != before {
			return t, fmt.Errorf("line %d: %s is an %v, but in line %d, %[2]s has no type and was read as an %[5]v; use --types %[2]s:%[3]v, or import from a file, so that the command can find all types before it imports rows", line, c.name, t, c.types.untyped, before)
		}
	}
	if c.types.mixed() && !c.warned && r.Mixed != nil {
		r.Mixed(fmt.Sprintf("%s has several types; its values without a type become %v", c.name, c.types.usualType()))
		c.warned = true
	}
	if !typed {
		t = c.types.usualType()
	}
	return t, nil
}

// typeOf returns the type of a cell. If the column of types does not contain the cell's type, `typed` is false.
func (c csvColumn) typeOf(cells []string) (t storage.Type, typed bool, err error) {
	if c.typed < 0 || cells[c.typed] == "" {
		return storage.String, false, nil
	}
	name := strings.TrimSpace(cells[c.typed])
	if t, typed = odata.ParseType("Edm." + strings.TrimPrefix(name, "Edm.")); !typed {
		err = fmt.Errorf("%s has the type %.100q, which properties cannot have", c.name, name)
	}
	return t, typed, err
}

// Columns are the columns of CSV output. [Columns.See] must be called with all rows before the first row is written.
type Columns struct {
	CSV
	// Lossy, if set, is called for a property whose text is not valid Unicode. The invalid parts are written as U+FFFD.
	Lossy func(k key.Key, name string)

	names []string
	at    map[string]int
	last  []storage.Column // the columns of the last row; compared first, because many rows share their columns
}

// See adds the columns of the given rows to c.
func (c *Columns) See(rows []storage.Row) error {
	for _, row := range rows {
		if sameList(row.Columns, c.last) {
			continue
		}
		for _, one := range row.Columns {
			c.add(one.Name)
		}
		c.last = row.Columns
		if len(c.names) > maxColumns {
			return fmt.Errorf("the rows have more than %d properties, and CSV needs a column for each; select properties with --select, or use JSON lines", maxColumns)
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

// Append appends the rows as lines. It fails if a row has a property that [Columns.See] has not seen.
func (c *Columns) Append(b []byte, rows []storage.Row) ([]byte, error) {
	for _, text := range rows {
		row := text.Entity()
		b = c.appendCell(append(c.appendCell(b, row.Key.Partition), c.Delimiter), row.Key.Row)
		if b = append(b, c.Delimiter); !row.Timestamp.IsZero() {
			b = append(b, storage.TimeProperty("", row.Timestamp).Text()...)
		}
		own := make([]*storage.Property, len(c.names))
		for i, p := range row.Properties {
			at, known := c.at[p.Name]
			if !known {
				return b, fmt.Errorf("PartitionKey %q RowKey %q: the property %s was added after the command had collected the columns; run the command again", row.Key.Partition, row.Key.Row, p.Name)
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
			b = append(append(c.appendCell(b, text), c.Delimiter), p.Type.String()...)
		}
		b = append(b, "\r\n"...)
	}
	return b, nil
}

func (c *Columns) appendCell(b []byte, text string) []byte {
	if !strings.ContainsAny(text, "\"\r\n") && strings.IndexByte(text, c.Delimiter) < 0 {
		return append(b, text...)
	}
	b = append(b, '"')
	b = append(b, strings.ReplaceAll(text, `"`, `""`)...)
	return append(b, '"')
}

// CheckDelimiter returns an error for a delimiter that cannot separate cells.
func CheckDelimiter(d string) error {
	if len(d) != 1 || !strings.Contains(",;\t|:~^#", d) {
		return fmt.Errorf(`is %q; it must be a comma, a semicolon, a tab, or one of "|", ":", "~", "^" and "#"`, d)
	}
	return nil
}
