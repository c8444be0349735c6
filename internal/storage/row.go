package storage

import (
	"bytes"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"tablesweep/internal/odata"
)

// rawPage reads the body of a query's answer as [decodePage] does, but leaves each row
// as text: its entities have only a key, JSON and columns. The text is what [Entity.AppendJSON] makes of the decoded
// row, unless that has a name twice. It does not retain body.
//
// It knows JSON in the form in which services write rows. It reports false for any
// other: decodePage then decides what the page means.
func rawPage(body []byte) ([]Entity, bool) {
	out := pageBuffers.get()
	defer pageBuffers.put(out)
	out.Grow(len(body))
	r := rawReader{in: body, out: out.AvailableBuffer(), rows: make([]Entity, 0, min(PageRows, len(body)/150+1)), names: map[string]string{}}
	if !r.page() {
		return nil, false
	}
	r.share(bytes.Clone(r.out))
	return r.rows, true
}

// share makes the rows' JSON parts of text, which has what was written to out.
func (r *rawReader) share(text []byte) {
	begin := 0
	for i := range r.rows {
		json := &r.rows[i].JSON
		end := begin + len(*json)
		*json, begin = text[begin:end:end], end
	}
}

// rawReader passes over a page once. Its methods report false for forms that they don't know.
type rawReader struct {
	in   []byte
	at   int // of in, behind what has been read
	out  []byte
	rows []Entity

	columns []Column // of the row, at first those of the row before
	has     int      // of the columns have been read
	changed bool     // the columns are this row's own
	names   map[string]string
	foreign bool // the rows are anybody's, see [ParseLine]
}

func (r *rawReader) page() bool {
	if !r.next('{') {
		return false
	}
	for seen := false; ; {
		name := r.name()
		switch {
		case name == nil || !r.next(':'):
			return false
		case string(name) != `"value"`:
			if r.value().text == nil {
				return false
			}
		case seen || !r.all():
			return false
		default:
			seen = true
		}
		if !r.next(',') {
			end := r.next('}')
			r.skipSpace()
			return end && seen && r.at == len(r.in)
		}
	}
}

// all reads the array of rows.
func (r *rawReader) all() bool {
	if !r.next('[') {
		return false
	}
	if r.next(']') {
		return true
	}
	for {
		if !r.row() {
			return false
		}
		if !r.next(',') {
			return r.next(']')
		}
	}
}

// The members of a row that are not properties, with their quotes.
const (
	partitionName = `"PartitionKey"`
	rowName       = `"RowKey"`
	timestampName = `"Timestamp"`
	odataPrefix   = `"odata.`
	laterPrefix   = `"@odata.` // of later versions of OData
	typeSuffix    = `@odata.type"`
)

// row reads a row and appends it to rows, and its JSON to out.
func (r *rawReader) row() bool {
	if !r.next('{') {
		return false
	}
	var e Entity
	begin := len(r.out)
	r.out = append(r.out, '{')
	keys := begin + 1 // where the row's key belongs, and then the properties
	r.has, r.changed = 0, false
	partition, row := false, false // have been read
	for more := true; more; more = r.next(',') {
		name := r.name()
		if name == nil || !r.next(':') {
			return false
		}
		v, at, ok := r.value(), len(r.out), true
		switch {
		case v.text == nil:
			return false
		case string(name) == partitionName:
			ok = !partition && setRawKey(&e.Key.Partition, v, r.lastPartition())
			partition = true
			r.member(name, v.text)
			r.move(at, begin+1)
			keys += len(r.out) - at
		case string(name) == rowName:
			ok = !row && setRawKey(&e.Key.Row, v, "")
			row = true
			r.member(name, v.text)
			r.move(at, keys)
		case string(name) == timestampName, bytes.HasPrefix(name, []byte(odataPrefix)), bytes.HasPrefix(name, []byte(laterPrefix)):
		case bytes.HasSuffix(name, []byte(typeSuffix)):
			ok = r.annotated(name, v.text)
		case v.text[0] == 'n': // null: a selected property that the row does not have
		default:
			if v.kind == Double {
				r.out = append(append(r.out, name[:len(name)-1]...), typeSuffix+`:"Edm.Double",`...)
			}
			ok = r.exact(v)
			r.property(name, v)
		}
		if !ok {
			return false
		}
	}
	if !r.next('}') || !partition || !row {
		return false
	}
	r.out[len(r.out)-1] = '}' // in place of the last comma
	e.JSON, e.Columns = r.out[begin:], r.columns[:r.has:r.has]
	r.rows = append(r.rows, e)
	return true
}

// member appends the member that was read last to out, and a comma.
func (r *rawReader) member(name, text []byte) {
	if n := len(name) + 1 + len(text); &name[0] == &r.in[r.at-n] { // without white space
		r.out = append(append(r.out, r.in[r.at-n:r.at]...), ',')
		return
	}
	r.out = append(append(append(append(r.out, name...), ':'), text...), ',')
}

// move moves the end of out, from a byte of it, to one before.
func (r *rawReader) move(from, to int) {
	if from > to {
		r.out = slices.Insert(r.out[:from], to, bytes.Clone(r.out[from:])...)
	}
}

// property appends a property to out, and to the row's columns: those of the row before, as long as they are the same.
func (r *rawReader) property(name []byte, v rawValue) {
	r.member(name, v.text)
	name = name[1 : len(name)-1]
	if r.has < len(r.columns) && r.columns[r.has].Type == v.kind && r.columns[r.has].Name == string(name) {
		r.has++
		return
	}
	if !r.changed {
		r.columns, r.changed = append(make([]Column, 0, len(r.columns)+1), r.columns[:r.has]...), true
	}
	known, ok := r.names[string(name)]
	if !ok {
		known = string(name)
		r.names[known] = known
	}
	r.columns = append(r.columns, Column{known, v.kind})
	r.has++
}

func (r *rawReader) lastPartition() string {
	if len(r.rows) == 0 {
		return ""
	}
	return r.rows[len(r.rows)-1].Key.Partition
}

// setRawKey sets a key without escapes. last is a key that it may be equal to.
func setRawKey(to *string, v rawValue, last string) bool {
	if v.text[0] != '"' || !v.ascii && (bytes.IndexByte(v.text, '\\') >= 0 || !utf8.Valid(v.text)) {
		return false
	}
	if text := v.text[1 : len(v.text)-1]; string(text) == last {
		*to = last
	} else {
		*to = string(text)
	}
	return true
}

// annotatedTypes are those that only an annotation tells.
var annotatedTypes = map[string]Type{`"Edm.Int64"`: Int64, `"Edm.Double"`: Double, `"Edm.DateTime"`: DateTime, `"Edm.Guid"`: GUID, `"Edm.Binary"`: Binary}

// annotated reads the property that must follow the annotation. It leaves nulls, and types
// that need no annotation, to decodePage.
func (r *rawReader) annotated(annotation, text []byte) bool {
	r.member(annotation, text)
	kind, ok := annotatedTypes[string(text)]
	if !ok || !r.next(',') {
		return false
	}
	name := r.name()
	of := annotation[:len(annotation)-len(typeSuffix)]
	if name == nil || !bytes.Equal(name[:len(name)-1], of) || special(name) || !r.next(':') {
		return false
	}
	v := r.value()
	if v.text == nil || v.text[0] == 'n' {
		return false
	}
	v.kind = kind
	r.property(name, v)
	return r.exact(v)
}

// exact reports whether it is plain that a table keeps a value.
func (r *rawReader) exact(v rawValue) bool {
	const mostDigits = 15 // of any decimal number, that a Double has
	switch {
	case !r.foreign:
		return true
	case v.kind == Double:
		return len(v.text) <= mostDigits && bytes.IndexByte(v.text, '.') >= 0 && !bytes.ContainsAny(v.text, `eE"`)
	case v.kind == Int64:
		return v.text[0] == '"'
	case v.kind == DateTime:
		return len(v.text) <= len(`"2026-02-03T04:05:06.1234567Z"`)
	}
	return true
}

// special reports whether a member of the name is no property.
func special(name []byte) bool {
	return string(name) == partitionName || string(name) == rowName || string(name) == timestampName ||
		bytes.HasPrefix(name, []byte(odataPrefix)) || bytes.HasPrefix(name, []byte(laterPrefix)) || bytes.HasSuffix(name, []byte(typeSuffix))
}

// next skips white space and then the character c, if it follows.
func (r *rawReader) next(c byte) bool {
	r.skipSpace()
	return r.skip(c)
}

func (r *rawReader) skipSpace() {
	for r.at < len(r.in) {
		switch r.in[r.at] {
		case ' ', '\t', '\r', '\n':
			r.at++
		default:
			return
		}
	}
}

// skip passes the character c, if it follows at once.
func (r *rawReader) skip(c byte) bool {
	if r.at < len(r.in) && r.in[r.at] == c {
		r.at++
		return true
	}
	return false
}

// name reads a member's name, with its quotes. It returns nil for a name that is not well
// formed or has escapes.
func (r *rawReader) name() []byte {
	r.skipSpace()
	v := r.text()
	if v.ascii || v.text != nil && bytes.IndexByte(v.text, '\\') < 0 && utf8.Valid(v.text) {
		return v.text
	}
	return nil
}

// rawValue is a scalar. Its text is nil if the value is not a scalar.
type rawValue struct {
	text  []byte
	ascii bool // a string of ASCII without escapes
	kind  Type // without annotation
}

func (r *rawReader) value() rawValue {
	r.skipSpace()
	if r.at == len(r.in) {
		return rawValue{}
	}
	switch r.in[r.at] {
	case '"':
		return r.text()
	case 't':
		return r.word("true", Boolean)
	case 'f':
		return r.word("false", Boolean)
	case 'n':
		return r.word("null", String)
	}
	return r.number()
}

func (r *rawReader) word(w string, kind Type) rawValue {
	if !bytes.HasPrefix(r.in[r.at:], []byte(w)) {
		return rawValue{}
	}
	r.at += len(w)
	return rawValue{text: r.in[r.at-len(w) : r.at], kind: kind}
}

// number reads a number: -?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?
func (r *rawReader) number() rawValue {
	start := r.at
	r.skip('-')
	if !r.skip('0') && r.digits() == 0 {
		return rawValue{}
	}
	whole := r.at
	if r.skip('.') && r.digits() == 0 {
		return rawValue{}
	}
	if r.skip('e') || r.skip('E') {
		if !r.skip('+') {
			r.skip('-')
		}
		if r.digits() == 0 {
			return rawValue{}
		}
	}
	text := r.in[start:r.at]
	// Int32 is the type of what has few digits; odata.Implied decides where they are many.
	v := rawValue{text: text, kind: Int32}
	if r.at > whole || len(text) > 9 {
		v.kind = odata.Implied(text)
	}
	return v
}

func (r *rawReader) digits() (n int) {
	for ; r.at < len(r.in) && '0' <= r.in[r.at] && r.in[r.at] <= '9'; r.at++ {
		n++
	}
	return n
}

// stops holds the characters that can end a string or need a check.
var stops = func() (stops [256]bool) {
	for c := range stops {
		stops[c] = c == '"' || c == '\\' || c < ' ' || c >= utf8.RuneSelf
	}
	return stops
}()

// text reads a string, with its quotes.
func (r *rawReader) text() rawValue {
	if !r.skip('"') {
		return rawValue{}
	}
	v := rawValue{ascii: true}
	for i := r.at; i < len(r.in); i++ {
		c := r.in[i]
		if !stops[c] {
			continue
		}
		switch {
		case c == '"':
			v.text = r.in[r.at-1 : i+1]
			r.at = i + 1
			return v
		case c == '\\':
			n := escapeLength(r.in[i:])
			if n == 0 {
				return rawValue{}
			}
			i += n - 1
		case c < ' ':
			return rawValue{}
		}
		v.ascii = false
	}
	return rawValue{}
}

// escapeLength returns the length of the escape that text starts with, 0 if it is none.
func escapeLength(text []byte) int {
	if len(text) < 2 {
		return 0
	}
	switch text[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(text) < 6 {
			return 0
		}
		if _, err := strconv.ParseUint(string(text[2:6]), 16, 16); err != nil {
			return 0
		}
		return 6
	}
	return 0
}

// Decoded returns an entity with properties in the place of JSON.
func (e Entity) Decoded() (Entity, error) {
	if e.JSON == nil {
		return e, nil
	}
	if properties, ok := e.plainProperties(); ok {
		e.Properties, e.JSON, e.Columns = properties, nil, nil
		return e, nil
	}
	d := newDecoder(e.JSON, jsontext.AllowDuplicateNames(true))
	d.width = len(e.Columns)
	return d.entity(), d.err
}

// plainProperties reads JSON that has the properties of Columns, in their order, behind the keys, as [rawPage] makes it. It reports false for any other.
func (e Entity) plainProperties() (all []Property, ok bool) {
	r := rawReader{in: e.JSON}
	if r.at = 1; len(e.JSON) == 0 || e.JSON[0] != '{' {
		return nil, false
	}
	all = make([]Property, 0, len(e.Columns))
	for more := true; more; more = r.skip(',') {
		name := r.text().text
		if name == nil || !r.skip(':') {
			return nil, false
		}
		v := r.value().text
		switch {
		case v != nil && (string(name) == partitionName || string(name) == rowName || bytes.HasSuffix(name, []byte(typeSuffix))):
		case v == nil || v[0] == 'n' || special(name) || len(all) == len(e.Columns) || string(name[1:len(name)-1]) != e.Columns[len(all)].Name:
			return nil, false
		default:
			c := e.Columns[len(all)]
			all = append(all, Property{c.Name, c.Type, v})
		}
	}
	return all, r.skip('}') && r.at == len(r.in) && len(all) == len(e.Columns)
}

// Over returns what a merge of the row into another one gives: its own properties, and those that only the other one has.
func (e Entity) Over(other Entity) (Entity, error) {
	row, err := e.Decoded()
	if err != nil {
		return e, err
	}
	if other, err = other.Decoded(); err != nil {
		return e, err
	}
	row.Properties = slices.Clone(row.Properties)
	for _, p := range other.Properties {
		if !slices.ContainsFunc(row.Properties, func(own Property) bool { return own.Name == p.Name }) {
			row.Properties = append(row.Properties, p)
		}
	}
	if e.JSON != nil {
		row = row.asRaw()
	}
	return row, nil
}

// asRaw returns an entity with JSON and columns in the place of all but its key.
func (e Entity) asRaw() Entity {
	raw := Entity{Key: e.Key, JSON: e.AppendJSON(nil)}
	for _, p := range e.Properties {
		raw.Columns = append(raw.Columns, Column{p.Name, p.Type})
	}
	return raw
}
