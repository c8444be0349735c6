package storage

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tablesweep/internal/key"
	"tablesweep/internal/key/odata"
)

// Type is a property's EDM type.
type Type = odata.Type

// The property types of the Table service.
const (
	String   = odata.String
	Boolean  = odata.Boolean
	Int32    = odata.Int32
	Int64    = odata.Int64
	Double   = odata.Double
	DateTime = odata.DateTime
	GUID     = odata.Guid
	Binary   = odata.Binary
)

// Property is one property of an entity. Value is the property's JSON text exactly as the service sends it, even if its Unicode
// is ill-formed. Value is a JSON string for String, Int64, DateTime, Guid and Binary (base64), and for the Doubles NaN,
// Infinity and -Infinity.
type Property struct {
	Name  string
	Type  Type
	Value jsontext.Value
}

// Text returns the value: a string without quotes, and any other value as JSON.
func (p Property) Text() string { return text(p.Value) }

// Entity is a row with its properties.
type Entity struct {
	Key        key.Key
	Properties []Property // without PartitionKey, RowKey and Timestamp
	ETag       string
	Timestamp  time.Time // time of the last modification, by the service's clock; zero if not selected
}

// Clone returns a copy that does not share memory with e's page, so the rest of the page can be freed.
func (e Entity) Clone() Entity {
	e.Properties = slices.Clone(e.Properties)
	for i, p := range e.Properties {
		e.Properties[i].Value = p.Value.Clone()
	}
	return e
}

// Get returns the property's value as [Property.Text] does, or "" if the entity has no such property.
func (e Entity) Get(name string) string {
	for _, p := range e.Properties {
		if p.Name == name {
			return text(p.Value)
		}
	}
	return ""
}

// Int returns the integer property's value, or 0.
func (e Entity) Int(name string) int64 {
	n, _ := strconv.ParseInt(e.Get(name), 10, 64)
	return n
}

// Bytes returns the Binary property's value, or nil.
func (e Entity) Bytes(name string) []byte {
	b, err := base64.StdEncoding.DecodeString(e.Get(name))
	if err != nil {
		return nil
	}
	return b
}

// Time returns the DateTime property's value, or the zero time.
func (e Entity) Time(name string) time.Time {
	t, _ := time.Parse(time.RFC3339Nano, e.Get(name))
	return t
}

// StringProperty makes a String property.
func StringProperty(name, value string) Property {
	return Property{Name: name, Type: String, Value: quote(value)}
}

// Int64Property makes an Int64 property.
func Int64Property(name string, value int64) Property {
	return Property{Name: name, Type: Int64, Value: quote(strconv.FormatInt(value, 10))}
}

// TimeProperty makes a DateTime property, in UTC, with the service's precision of 100 ns.
func TimeProperty(name string, value time.Time) Property {
	return Property{Name: name, Type: DateTime, Value: quote(value.UTC().Format("2006-01-02T15:04:05.0000000Z"))}
}

// BinaryProperty makes a Binary property.
func BinaryProperty(name string, value []byte) Property {
	return Property{Name: name, Type: Binary, Value: quote(base64.StdEncoding.EncodeToString(value))}
}

func quote(s string) jsontext.Value { return appendQuote(nil, s) }

func appendQuote(b []byte, s string) []byte {
	v, err := jsontext.AppendQuote(b, s)
	if err != nil {
		// Replace invalid UTF-8, as encoding/json does.
		v, _ = jsontext.AppendQuote(b, strings.ToValidUTF8(s, "\uFFFD"))
	}
	return v
}

func text(v jsontext.Value) string {
	if v.Kind() != '"' {
		return string(v)
	}
	if end := slices.IndexFunc(v[1:], func(c byte) bool { return stops[c] }); end >= 0 && end == len(v)-2 && v[end+1] == '"' {
		return string(v[1 : end+1])
	}
	b, err := jsontext.AppendUnquote(nil, v)
	if err != nil {
		return ""
	}
	return string(b)
}

// decodePage reads the body of a query's answer. The entities' values are parts of body, so the caller must not change body.
func decodePage(body []byte) ([]Entity, error) {
	d := newDecoder(body, jsontext.AllowDuplicateNames(true))
	entities := d.readPage()
	if d.err != nil {
		return nil, fmt.Errorf("page of entities: %w", d.err)
	}
	return entities, nil
}

// decoder reads rows from JSON. After an error, its methods do nothing.
type decoder struct {
	dec   *jsontext.Decoder
	body  []byte
	err   error             // the first error
	names map[string]string // one copy of each property name
	width int               // number of properties of the previous entity, as an estimate for the next entity

	foreign bool  // any program may have written the rows; see [ParseLine]
	inexact error // about the first value that a table would store differently; only set if foreign is set
}

func newDecoder(body []byte, o ...jsontext.Options) *decoder {
	dec := jsontext.NewDecoder(bytes.NewBuffer(body), append(o, jsontext.AllowInvalidUTF8(true))...)
	return &decoder{dec: dec, body: body, names: map[string]string{}}
}

func (d *decoder) readPage() (entities []Entity) {
	d.expect('{')
	for d.next('"') {
		if d.readName() != "value" {
			d.readValue()
			continue
		}
		if entities != nil {
			d.fail(errors.New("it has two arrays \"value\""))
		}
		entities = []Entity{}
		d.expect('[')
		for d.next('{') {
			entities = append(entities, d.readEntity())
		}
		d.expect(']')
	}
	d.expect('}')
	if entities == nil {
		d.fail(errNoRows)
	}
	if _, err := d.dec.ReadToken(); err != io.EOF {
		d.fail(errors.New("there is text after its end"))
	}
	return entities
}

var errNoRows = errors.New("it has no array \"value\"")

// unreadableRow is the error of a well-formed row that cannot be read exactly.
type unreadableRow struct{ error }

func (d *decoder) readEntity() Entity {
	e := Entity{Properties: make([]Property, 0, d.width)}
	var annotated map[string]Type // annotations that came before their property
	var partition, row bool       // whether each key has been read
	d.expect('{')
	for d.next('"') {
		name, value := d.readName(), d.readValue()
		of, annotation := strings.CutSuffix(name, "@odata.type")
		switch {
		case d.err != nil, strings.HasPrefix(name, "@odata."):
		case annotation:
			t, known := annotatedType(text(value))
			if !known {
				d.fail(&unreadableRow{fmt.Errorf("property %s: unknown type %q", of, text(value))})
			}
			if annotated == nil {
				annotated = map[string]Type{}
			}
			annotated[of] = t
		default:
			partition, row = partition || name == "PartitionKey", row || name == "RowKey"
			if d.foreign && name == "Timestamp" { // the table sets its own Timestamp
				continue
			}
			if err := e.set(name, value); err != nil {
				d.fail(&unreadableRow{err})
			}
		}
	}
	for i, p := range e.Properties {
		if t, ok := annotated[p.Name]; ok {
			e.Properties[i].Type = t
		} else if d.foreign && p.Type == Double && !bytes.ContainsAny(p.Value, ".eE") {
			e.Properties[i].Type = Int64
		}
		if d.foreign {
			if err := e.Properties[i].exact(); err != nil && d.inexact == nil {
				d.inexact = &Inexact{p.Name, fmt.Errorf("%w; it is %.100s", err, p.Value)}
			}
		}
	}
	d.width = len(e.Properties)
	d.expect('}')
	if !partition || !row {
		d.fail(errors.New("a row lacks a key"))
	}
	return e
}

// annotatedType returns the type that an annotation names: Edm.Int64, or #Int64 as in later versions of OData.
func annotatedType(name string) (Type, bool) {
	if short, later := strings.CutPrefix(name, "#"); later {
		name = "Edm." + strings.TrimPrefix(short, "Edm.")
	}
	return odata.ParseType(name)
}

// set puts the value of one member of the entity's JSON object into the entity.
func (e *Entity) set(name string, value jsontext.Value) error {
	switch name {
	case "PartitionKey":
		return setKey(&e.Key.Partition, name, value)
	case "RowKey":
		return setKey(&e.Key.Row, name, value)
	case "Timestamp":
		t, err := time.Parse(time.RFC3339Nano, text(value))
		if err != nil {
			return fmt.Errorf("property Timestamp: %w", err)
		}
		e.Timestamp = t
		if e.ETag == "" {
			// The ETag is computed from the Timestamp, because the service does not promise an ETag at every metadata level.
			e.ETag = etagOf(text(value))
		}
	case "odata.etag":
		e.ETag = text(value)
	default:
		// The service sends null for a selected property that the entity lacks.
		if value.Kind() == 'n' || strings.HasPrefix(name, "odata.") {
			return nil
		}
		e.Properties = append(e.Properties, Property{Name: name, Type: odata.Implied(value), Value: value})
	}
	return nil
}

// etagOf returns the ETag that the Table service makes from a Timestamp.
func etagOf(timestamp string) string { return `W/"datetime'` + url.QueryEscape(timestamp) + `'"` }

// ETagTime returns the Timestamp in an ETag of the Table service. ok is false for an ETag without a Timestamp, such as one from
// Cosmos DB.
func ETagTime(etag string) (t time.Time, ok bool) {
	text, weak := strings.CutPrefix(etag, `W/"datetime'`)
	text, whole := strings.CutSuffix(text, `'"`)
	text, err := url.QueryUnescape(text)
	if weak && whole && err == nil {
		t, err = time.Parse(time.RFC3339Nano, text)
	}
	return t, weak && whole && err == nil
}

// setKey sets a key. The key must be well formed, because a repaired key would be another row's key.
func setKey(to *string, name string, value jsontext.Value) error {
	if value.Kind() != '"' {
		return fmt.Errorf("%s must be a string in quotes, not %.100s", name, value)
	}
	b, err := jsontext.AppendUnquote(nil, value)
	if err != nil {
		return fmt.Errorf("%s %s is not valid Unicode and cannot be read exactly: %w", name, value, err)
	}
	*to = string(b)
	return nil
}

// fail records the decoder's first error.
func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

// next reports whether the next token has the given kind.
func (d *decoder) next(kind jsontext.Kind) bool { return d.err == nil && d.dec.PeekKind() == kind }

func (d *decoder) expect(kind jsontext.Kind) {
	if d.err != nil {
		return
	}
	if t, err := d.dec.ReadToken(); err != nil {
		d.fail(err)
	} else if t.Kind() != kind {
		d.fail(fmt.Errorf("it has %v instead of %v at byte %d", t.Kind(), kind, d.dec.InputOffset()))
	}
}

func (d *decoder) readName() string {
	v := d.readValue()
	name, ok := d.names[string(v)]
	if !ok {
		name = text(v)
		d.names[string(v)] = name
	}
	return name
}

// readValue returns the next value's text, which is a part of the body.
func (d *decoder) readValue() jsontext.Value {
	if d.err != nil {
		return nil
	}
	v, err := d.dec.ReadValue()
	if err != nil {
		d.fail(err)
		return nil
	}
	end := d.dec.InputOffset()
	return d.body[end-int64(len(v)) : end : end]
}

// AppendJSON appends the entity to b as a JSON object with its keys and properties, but without ETag and Timestamp. The object
// has the annotations that the service needs to store every value with its type. A Double is always annotated, because a client
// or emulator may otherwise read 3.0 as an Int32.
func (e Entity) AppendJSON(b []byte) []byte {
	b = append(b, `{"PartitionKey":`...)
	b = appendQuote(b, e.Key.Partition)
	b = append(b, `,"RowKey":`...)
	b = appendQuote(b, e.Key.Row)
	for _, p := range e.Properties {
		if p.Type == Double || p.Type != odata.Implied(p.Value) {
			b = appendName(append(b, ','), p.Name)
			b = append(b[:len(b)-1], `@odata.type":"`...)
			b = append(b, p.Type.String()...)
			b = append(b, '"')
		}
		b = appendName(append(b, ','), p.Name)
		b = append(b, ':')
		b = append(b, p.Value...)
	}
	return append(b, '}')
}

func appendName(b []byte, name string) []byte {
	for i := range len(name) {
		if stops[name[i]] {
			return appendQuote(b, name)
		}
	}
	return append(append(append(b, '"'), name...), '"')
}

// Equal reports whether two entities have the same key and the same properties,
// in any order, with the same types and values.
func Equal(a, b Entity) bool {
	if a.Key != b.Key || len(a.Properties) != len(b.Properties) {
		return false
	}
	for i, p := range a.Properties {
		q := b.Properties[i]
		if q.Name != p.Name {
			at := slices.IndexFunc(b.Properties, func(q Property) bool { return q.Name == p.Name })
			if at < 0 {
				return false
			}
			q = b.Properties[at]
		}
		if p.Type != q.Type || !equalValues(p.Type, p.Value, q.Value) {
			return false
		}
	}
	return true
}

func equalValues(t Type, a, b jsontext.Value) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, y := text(a), text(b)
	if x == "" || y == "" { // a value with a lone surrogate has no text, so compare the JSON
		return false
	}
	switch t {
	case Double: // 1e2 and 100.0 are the same Double
		f, err1 := strconv.ParseFloat(x, 64)
		g, err2 := strconv.ParseFloat(y, 64)
		return err1 == nil && err2 == nil && math.Float64bits(f) == math.Float64bits(g)
	case DateTime: // both 00:00:00 and 00:00:00.0 are legal
		s, err1 := time.Parse(time.RFC3339Nano, x)
		u, err2 := time.Parse(time.RFC3339Nano, y)
		return err1 == nil && err2 == nil && s.Equal(u)
	case GUID:
		return strings.EqualFold(x, y)
	}
	return x == y
}
