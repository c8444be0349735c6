package storage

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"tablesweep/internal/key"
	"tablesweep/internal/key/odata"
)

// Row is a row as a query returns it: its key, and its properties as the answer's text. A row can be written or
// compared without decoding.
type Row struct {
	Key     key.Key
	Columns []Column // in the text's order; never changed, because adjacent rows share them
	Note    string   // a source's remark, such as how the row differs from another; "" if the source is a table

	json            jsontext.Value
	etag, timestamp jsontext.Value // as received; nil if absent
}

// Column is a property's name and type.
type Column struct {
	Name string
	Type Type
}

// JSON returns the row in the form of [Entity.AppendJSON]. The caller must not change the result.
func (r Row) JSON() jsontext.Value {
	if r.json == nil {
		return Entity{Key: r.Key}.AppendJSON(nil)
	}
	return r.json
}

// Timestamp returns the time of the row's last modification, by the service's clock, or zero if the query did not
// select it.
func (r Row) Timestamp() time.Time {
	if r.timestamp == nil {
		return time.Time{}
	}
	t, _ := time.Parse(time.RFC3339Nano, text(r.timestamp))
	return t
}

// ETag returns the row's ETag, or "" if it is unknown. The Table service derives the ETag from the Timestamp.
func (r Row) ETag() string {
	switch {
	case r.etag != nil:
		return text(r.etag)
	case r.timestamp != nil:
		return etagOf(text(r.timestamp))
	}
	return ""
}

// WithETag returns a copy of the row with the given ETag.
func (r Row) WithETag(etag string) Row {
	r.etag = quote(etag)
	return r
}

// Clone returns a copy that shares only the names of the columns with the row's page. So the rest of the page can be
// freed.
func (r Row) Clone() Row {
	r.json, r.etag, r.timestamp = bytes.Clone(r.json), bytes.Clone(r.etag), bytes.Clone(r.timestamp)
	r.Key = key.Key{Partition: strings.Clone(r.Key.Partition), Row: strings.Clone(r.Key.Row)}
	return r
}

// Entity decodes the row. The properties share memory with the row's text, so they keep the whole page in memory.
func (r Row) Entity() Entity {
	e := Entity{Key: r.Key, ETag: r.ETag(), Timestamp: r.Timestamp()}
	if r.json == nil {
		return e
	}
	var ok bool
	if e.Properties, ok = r.plainProperties(); ok {
		return e
	}
	d := newDecoder(r.json, jsontext.AllowDuplicateNames(true))
	d.width = len(r.Columns)
	if e.Properties = d.readEntity().Properties; d.err != nil {
		panic("storage: internal error: a row's text: " + d.err.Error())
	}
	return e
}

// MergedInto merges r into other. The result has all properties of r, and the properties of other that r does not have.
func (r Row) MergedInto(other Row) Row {
	row := r.Entity()
	for _, p := range other.Entity().Properties {
		if !slices.ContainsFunc(row.Properties, func(own Property) bool { return own.Name == p.Name }) {
			row.Properties = append(row.Properties, p)
		}
	}
	return row.Row()
}

// Row returns the entity as a [Row], the form in which rows are written.
func (e Entity) Row() Row {
	r := Row{Key: e.Key, json: e.AppendJSON(nil)}
	if e.ETag != "" {
		r.etag = quote(e.ETag)
	}
	if !e.Timestamp.IsZero() {
		r.timestamp = TimeProperty("", e.Timestamp).Value
	}
	for _, p := range e.Properties {
		r.Columns = append(r.Columns, Column{p.Name, p.Type})
	}
	return r
}

// Rows returns the entities as rows.
func Rows(entities []Entity) []Row {
	rows := make([]Row, len(entities))
	for i, e := range entities {
		rows[i] = e.Row()
	}
	return rows
}

// parsePage reads the body of a query's answer. The rows do not share memory with body.
func parsePage(body []byte) ([]Row, error) {
	if rows, ok := plainPage(body); ok {
		return rows, nil
	}
	entities, err := decodePage(bytes.Clone(body))
	return Rows(entities), err
}

// plainPage reads a page in the form in which services write rows. It
// returns false for any other form, which [decodePage] must read.
func plainPage(body []byte) ([]Row, bool) {
	r := rowReader{in: body, rows: make([]Row, 0, min(PageRows, len(body)/150+1)), names: map[string]string{}}
	if len(body) > maxPooled { // the rows of a large page share its text, because a copy would double the memory
		if r.out = make([]byte, 0, len(body)); !r.readPage() {
			return nil, false
		}
		r.share(r.out)
		return r.rows, true
	}
	out := pageBuffers.get()
	defer pageBuffers.put(out)
	out.Grow(len(body))
	if r.out = out.AvailableBuffer(); !r.readPage() {
		return nil, false
	}
	r.share(bytes.Clone(r.out))
	return r.rows, true
}

// share makes the rows refer to the argument `text`, which is r.out or a copy of r.out.
func (r *rowReader) share(text []byte) {
	begin := 0
	for i := range r.rows {
		for _, part := range []*jsontext.Value{&r.rows[i].json, &r.rows[i].etag, &r.rows[i].timestamp} {
			end := begin + len(*part)
			if *part, begin = text[begin:end:end], end; len(*part) == 0 {
				*part = nil
			}
		}
	}
}

// rowReader reads a page in one pass. Its methods return false for forms that they do not support.
type rowReader struct {
	in   []byte
	at   int // number of bytes of r.in that have been read
	out  []byte
	rows []Row

	columns []Column // the row's columns; initially the previous row's
	count   int      // number of columns read so far
	changed bool     // the columns differ from the previous row's
	names   map[string]string
	foreign bool // the text is a row that any program may have written; see [ParseLine]
	twice   bool // set if a foreign row has two properties with the same name
}

func (r *rowReader) readPage() bool {
	if !r.next('{') {
		return false
	}
	for seen := false; ; {
		name := r.readName()
		switch {
		case name == nil || !r.next(':'):
			return false
		case string(name) != `"value"`:
			if r.readValue().text == nil {
				return false
			}
		case seen || !r.readAll():
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

func (r *rowReader) readAll() bool {
	if !r.next('[') {
		return false
	}
	if r.next(']') {
		return true
	}
	for {
		if !r.readRow() {
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
	etagMember    = `"odata.etag"`
	timeAnnotated = `"Timestamp@odata.type"`
	odataPrefix   = `"odata.`
	laterPrefix   = `"@odata.` // of later versions of OData
	typeSuffix    = `@odata.type"`
)

// readRow reads a row, and appends the row to r.rows and its JSON to r.out.
func (r *rowReader) readRow() bool {
	if !r.next('{') {
		return false
	}
	var e Row
	begin := len(r.out)
	r.out = append(r.out, '{')
	keys := begin + 1 // position of the row's key; the properties follow
	r.count, r.changed = 0, false
	partition, row := false, false // which of the two keys have been read
	var etag, timestamp []byte
	for more := true; more; more = r.next(',') {
		name := r.readName()
		if name == nil || !r.next(':') {
			return false
		}
		v, at, ok := r.readValue(), len(r.out), true
		switch {
		case v.text == nil:
			return false
		case string(name) == partitionName:
			ok = !partition && setPlainKey(&e.Key.Partition, v, r.lastPartition())
			partition = true
			r.appendMember(name, v.text)
			r.move(at, begin+1)
			keys += len(r.out) - at
		case string(name) == rowName:
			ok = !row && setPlainKey(&e.Key.Row, v, "")
			row = true
			r.appendMember(name, v.text)
			r.move(at, keys)
		case string(name) == timestampName && r.foreign: // the table sets its own Timestamp
		case string(name) == timestampName:
			ok = timestamp == nil && v.ascii
			timestamp = v.text
		case string(name) == etagMember:
			ok = etag == nil && v.text[0] == '"' && len(v.text) > len(`""`)
			etag = v.text
		case string(name) == timeAnnotated && string(v.text) == `"Edm.DateTime"`:
		case bytes.HasPrefix(name, []byte(odataPrefix)), bytes.HasPrefix(name, []byte(laterPrefix)):
		case bytes.HasSuffix(name, []byte(typeSuffix)):
			ok = r.annotatedProperty(name, v.text)
		case v.text[0] == 'n': // null: a selected property that the row does not have
		default:
			if v.kind == Double {
				r.out = append(append(r.out, name[:len(name)-1]...), typeSuffix+`:"Edm.Double",`...)
			}
			ok = r.exact(v)
			r.appendProperty(name, v)
		}
		if !ok {
			return false
		}
	}
	if !r.next('}') || !partition || !row || r.foreign && r.twice {
		return false
	}
	r.out[len(r.out)-1] = '}' // in place of the last comma
	e.json, e.Columns = r.out[begin:], r.columns[:r.count:r.count]
	at := len(r.out)
	r.out = append(append(r.out, etag...), timestamp...)
	e.etag, e.timestamp = r.out[at:at+len(etag)], r.out[at+len(etag):]
	r.rows = append(r.rows, e)
	return true
}

// appendMember appends the member that was read last, and a comma, to out.
func (r *rowReader) appendMember(name, text []byte) {
	if n := len(name) + 1 + len(text); &name[0] == &r.in[r.at-n] { // there is no white space between name and text
		r.out = append(append(r.out, r.in[r.at-n:r.at]...), ',')
		return
	}
	r.out = append(append(append(append(r.out, name...), ':'), text...), ',')
}

// move removes the bytes of r.out from begin to the end, and inserts them at target, which is before begin.
func (r *rowReader) move(begin, target int) {
	if begin > target {
		r.out = slices.Insert(r.out[:begin], target, bytes.Clone(r.out[begin:])...)
	}
}

// appendProperty appends a property to out and to the row's columns. A row with the same columns as the previous row shares the
// previous row's columns.
func (r *rowReader) appendProperty(name []byte, v scalar) {
	r.appendMember(name, v.text)
	name = name[1 : len(name)-1]
	if r.count < len(r.columns) && r.columns[r.count].Type == v.kind && r.columns[r.count].Name == string(name) {
		r.count++
		return
	}
	if !r.changed {
		r.columns, r.changed = append(make([]Column, 0, len(r.columns)+1), r.columns[:r.count]...), true
	}
	known, ok := r.names[string(name)]
	if r.twice = r.twice || ok; !ok {
		known = string(name)
		r.names[known] = known
	}
	r.columns = append(r.columns, Column{known, v.kind})
	r.count++
}

func (r *rowReader) lastPartition() string {
	if len(r.rows) == 0 {
		return ""
	}
	return r.rows[len(r.rows)-1].Key.Partition
}

// setPlainKey sets a key, and returns false unless the value is a string of valid UTF-8 without escapes. If the value equals `last`,
// setPlainKey stores `last` itself instead of a copy, to save memory.
func setPlainKey(to *string, v scalar, last string) bool {
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

// annotatedTypes lists the types that need an annotation.
var annotatedTypes = map[string]Type{`"Edm.Int64"`: Int64, `"Edm.Double"`: Double, `"Edm.DateTime"`: DateTime, `"Edm.Guid"`: GUID, `"Edm.Binary"`: Binary}

// annotatedProperty reads the property that must follow the annotation. It returns false for nulls and for types that
// need no annotation. If it returns false, decodePage reads the page instead.
func (r *rowReader) annotatedProperty(annotation, text []byte) bool {
	r.appendMember(annotation, text)
	kind, ok := annotatedTypes[string(text)]
	if !ok || !r.next(',') {
		return false
	}
	name := r.readName()
	of := annotation[:len(annotation)-len(typeSuffix)]
	if name == nil || !bytes.Equal(name[:len(name)-1], of) || special(name) || !r.next(':') {
		return false
	}
	v := r.readValue()
	if v.text == nil || v.text[0] == 'n' {
		return false
	}
	v.kind = kind
	r.appendProperty(name, v)
	return r.exact(v)
}

// exact reports whether a table certainly stores the value without a change.
func (r *rowReader) exact(v scalar) bool {
	const mostDigits = 15 // a Double preserves every decimal number of at most 15 digits
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

// special reports whether a row's member with this name is not a property.
func special(name []byte) bool {
	return string(name) == partitionName || string(name) == rowName || string(name) == timestampName ||
		bytes.HasPrefix(name, []byte(odataPrefix)) || bytes.HasPrefix(name, []byte(laterPrefix)) || bytes.HasSuffix(name, []byte(typeSuffix))
}

// next skips white space, and then the character c. It reports whether c was there.
func (r *rowReader) next(c byte) bool {
	r.skipSpace()
	return r.skip(c)
}

func (r *rowReader) skipSpace() {
	for r.at < len(r.in) {
		switch r.in[r.at] {
		case ' ', '\t', '\r', '\n':
			r.at++
		default:
			return
		}
	}
}

// skip skips the character c, and reports whether it was there.
func (r *rowReader) skip(c byte) bool {
	if r.at < len(r.in) && r.in[r.at] == c {
		r.at++
		return true
	}
	return false
}

// readName reads a member's name, with its quotes, or returns nil for a name that is malformed or has escapes.
func (r *rowReader) readName() []byte {
	r.skipSpace()
	v := r.readText()
	if v.ascii || v.text != nil && bytes.IndexByte(v.text, '\\') < 0 && utf8.Valid(v.text) {
		return v.text
	}
	return nil
}

// scalar is a scalar JSON value that was read. If another value was found, such as an array, the field `text` is nil.
type scalar struct {
	text  []byte
	ascii bool // a string of ASCII without escapes
	kind  Type // the value's type if it has no annotation
}

func (r *rowReader) readValue() scalar {
	r.skipSpace()
	if r.at == len(r.in) {
		return scalar{}
	}
	switch r.in[r.at] {
	case '"':
		return r.readText()
	case 't':
		return r.word("true", Boolean)
	case 'f':
		return r.word("false", Boolean)
	case 'n':
		return r.word("null", String)
	}
	return r.readNumber()
}

func (r *rowReader) word(w string, kind Type) scalar {
	if !bytes.HasPrefix(r.in[r.at:], []byte(w)) {
		return scalar{}
	}
	r.at += len(w)
	return scalar{text: r.in[r.at-len(w) : r.at], kind: kind}
}

// readNumber reads a number: -?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?
func (r *rowReader) readNumber() scalar {
	start := r.at
	r.skip('-')
	if !r.skip('0') && r.digits() == 0 {
		return scalar{}
	}
	whole := r.at
	if r.skip('.') && r.digits() == 0 {
		return scalar{}
	}
	if r.skip('e') || r.skip('E') {
		if !r.skip('+') {
			r.skip('-')
		}
		if r.digits() == 0 {
			return scalar{}
		}
	}
	text := r.in[start:r.at]
	// A whole number of at most nine characters is an Int32. For any other number, odata.Implied finds the type.
	v := scalar{text: text, kind: Int32}
	if r.at > whole || len(text) > 9 {
		v.kind = odata.Implied(text)
	}
	return v
}

func (r *rowReader) digits() (n int) {
	for ; r.at < len(r.in) && '0' <= r.in[r.at] && r.in[r.at] <= '9'; r.at++ {
		n++
	}
	return n
}

// stops are the bytes that can end a string or need a check.
var stops = func() (stops [256]bool) {
	for c := range stops {
		stops[c] = c == '"' || c == '\\' || c < ' ' || c >= utf8.RuneSelf
	}
	return stops
}()

// readText reads a string, with its quotes.
func (r *rowReader) readText() scalar {
	if !r.skip('"') {
		return scalar{}
	}
	v := scalar{ascii: true}
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
				return scalar{}
			}
			i += n - 1
		case c < ' ':
			return scalar{}
		}
		v.ascii = false
	}
	return scalar{}
}

// escapeLength returns the length of the escape at the start of text, or 0.
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

// plainProperties reads the text of a row whose values are all scalars. It returns false for any other row.
func (r Row) plainProperties() (all []Property, ok bool) {
	in := rowReader{in: r.json, at: len("{")}
	all = make([]Property, 0, len(r.Columns))
	for more := true; more; more = in.skip(',') {
		name := in.readText().text
		if name == nil || !in.skip(':') {
			return nil, false
		}
		v := in.readValue().text
		switch {
		case v != nil && (string(name) == partitionName || string(name) == rowName || bytes.HasSuffix(name, []byte(typeSuffix))):
		case v == nil || v[0] == 'n' || special(name) || len(all) == len(r.Columns) || string(name[1:len(name)-1]) != r.Columns[len(all)].Name:
			return nil, false
		default:
			c := r.Columns[len(all)]
			all = append(all, Property{c.Name, c.Type, v})
		}
	}
	return all, in.skip('}') && in.at == len(in.in) && len(all) == len(r.Columns)
}
