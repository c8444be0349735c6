package load

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"tablesweep/internal/input/lines"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
)

// csvRows reads records from CSV. The first row has the fields' names, each with a type
// behind a colon, such as npi:Int64; without a type, values are text.
type csvRows struct {
	reader *csv.Reader
	text   bytes.Buffer // what the reader has read, from offset on
	offset int64
	header []byte
	fields []csvField
}

type csvField struct {
	name string
	typ  storage.Type
}

// csvTypes are the names of types in a header.
var csvTypes = map[string]storage.Type{
	"string": storage.String, "boolean": storage.Boolean, "int32": storage.Int32, "int64": storage.Int64,
	"double": storage.Double, "datetime": storage.DateTime, "guid": storage.GUID, "binary": storage.Binary,
}

func newCSVRows(in io.Reader) (*csvRows, error) {
	c := &csvRows{}
	buffered := bufio.NewReaderSize(in, 1<<20)
	if start, _ := buffered.Peek(len(lines.ByteOrderMark)); string(start) == lines.ByteOrderMark {
		_, _ = buffered.Discard(len(start)) // can't fail after Peek
	}
	c.reader = csv.NewReader(io.TeeReader(buffered, &c.text))
	header, err := c.reader.Read()
	if err != nil {
		return nil, fmt.Errorf("the header, a row with the fields' names, can't be read: %w", err)
	}
	c.header = c.rowText()
	for i, text := range header {
		f := csvField{name: text}
		if at := strings.LastIndexByte(text, ':'); at >= 0 {
			known := false
			f.name = text[:at]
			if f.typ, known = csvTypes[strings.TrimPrefix(strings.ToLower(text[at+1:]), "edm.")]; !known {
				return nil, fmt.Errorf("column %d is %q: a type must follow the last colon: String, Boolean, Int32, Int64, Double, DateTime, Guid or Binary", i+1, text)
			}
		}
		if f.name == "" || slices.ContainsFunc(c.fields, func(other csvField) bool { return other.name == f.name }) {
			return nil, fmt.Errorf("column %d is %q: each column needs a name of its own", i+1, text)
		}
		c.fields = append(c.fields, f)
	}
	return c, nil
}

// next reads a row. It fails with [io.EOF] at the end.
func (c *csvRows) next() (Row, error) {
	cells, err := c.reader.Read()
	row := Row{Text: c.rowText()}
	var bad *csv.ParseError
	switch {
	case errors.As(err, &bad):
		row.Line, row.Err = bad.StartLine, bad.Err
		return row, nil
	case err != nil:
		return row, err
	}
	row.Line, _ = c.reader.FieldPos(0)
	row.Record, row.Err = record.Parse(c.object(cells))
	return row, nil
}

// rowText returns the text of the last row, even of a malformed one.
func (c *csvRows) rowText() []byte {
	end := c.reader.InputOffset()
	text := bytes.Clone(c.text.Next(int(end - c.offset)))
	c.offset = end
	return bytes.Trim(text, "\r\n") // empty lines before it
}

// object returns the JSON of a row. An empty cell is no field.
func (c *csvRows) object(cells []string) []byte {
	b := []byte{'{'}
	add := func(name string, value []byte) {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b, _ = jsontext.AppendQuote(b, name) // what is not Unicode becomes so
		b = append(append(b, ':'), value...)
	}
	for i, f := range c.fields {
		if cells[i] == "" {
			continue
		}
		quoted, _ := jsontext.AppendQuote(nil, cells[i])
		value := quoted
		if bare := jsontext.Value(strings.TrimSpace(cells[i])); (f.typ == storage.Int32 || f.typ == storage.Double) && bare.Kind() == '0' && bare.IsValid() {
			value = bare
		}
		if is, err := strconv.ParseBool(strings.ToLower(cells[i])); f.typ == storage.Boolean && err == nil {
			value = strconv.AppendBool(nil, is)
		}
		if f.typ != storage.String {
			add(f.name+"@odata.type", []byte(`"`+f.typ.String()+`"`))
		}
		add(f.name, value)
	}
	return append(b, '}')
}
