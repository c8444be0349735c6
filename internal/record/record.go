// Package record converts JSON objects to rows of typed properties and back, without loss
// in either direction. Catalogs and event streams store their callers' JSON as records.
//
// A [Record] is a set of fields. [Parse] reads a record from JSON:
//
//	JSON                           property
//	"text"                         String, at most 64 KiB in UTF-16
//	true, false                    Boolean
//	7, 5000000000                  Int32, or Int64 if the number does not fit. An Int64 beyond 2^53 comes
//	                               back as text with its type, because many readers would round it
//	3.0, 1e5                       Double with the same text, so 3.0 stays 3.0
//	null                           none: the field is absent
//	{…}, […]                       String, the value's compact JSON under a marked name
//	"f@odata.type": "Edm.Guid"     none: the type of field f
//
// An annotation, such as "f@odata.type", names one of the service's types. In a record's JSON, a field has an annotation only
// if its value does not show the type. From a record's JSON, [Parse] makes the same record again.
//
// A field may have any name. Names that are legal for properties are not changed. Other names are escaped (see name.go), and
// then start with tsw_x_ or tsw_j_. Other packages add columns whose names start with [OwnPrefix], but not with tsw_x_ or
// tsw_j_.
package record

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"tablesweep/internal/storage"
)

// OwnPrefix is the prefix of the names of all properties that are not fields.
const OwnPrefix = "tsw_"

// Record is a set of fields.
type Record struct {
	Fields []Field // sorted by name, each name once
}

// Field is one named value.
type Field struct {
	Name   string
	Type   storage.Type
	Nested bool           // the value is a JSON object or array, stored as text in a String
	Value  jsontext.Value // as in [storage.Property]
}

// Get returns a field's value as text. The text of a string has no quotes. The text of any other value is its JSON.
func (r Record) Get(name string) (text string, ok bool) {
	i, ok := slices.BinarySearchFunc(r.Fields, name, func(f Field, name string) int { return cmp.Compare(f.Name, name) })
	if !ok {
		return "", false
	}
	return r.Fields[i].text(), true
}

// Select returns a record that contains only the named fields of r.
func (r Record) Select(names []string) Record {
	kept := slices.DeleteFunc(slices.Clone(r.Fields), func(f Field) bool { return !slices.Contains(names, f.Name) })
	return Record{Fields: kept}
}

func (f Field) text() string {
	if f.Value.Kind() != '"' {
		return string(f.Value)
	}
	// AppendUnquote fails only for half a surrogate pair, which it replaces by U+FFFD.
	b, _ := jsontext.AppendUnquote(nil, f.Value)
	return string(b)
}

// Properties returns the properties that store the record in a row, in the order of the fields.
func (r Record) Properties() []storage.Property {
	properties := make([]storage.Property, len(r.Fields))
	for i, f := range r.Fields {
		properties[i] = storage.Property{Name: f.property(), Type: f.Type, Value: f.Value}
	}
	return properties
}

// FromProperties is the inverse of [Record.Properties]. It also reads properties that other programs have written. If a
// property's name starts with [OwnPrefix], but the property does not store a field, FromProperties skips the property.
func FromProperties(properties []storage.Property) Record {
	r := Record{Fields: make([]Field, 0, len(properties))}
	for _, p := range properties {
		if f, ok := fieldOf(p); ok {
			r.Fields = append(r.Fields, f)
		}
	}
	r.sort()
	// If another program has stored a field twice, as a plain value and as a nested value, keep the first.
	r.Fields = slices.CompactFunc(r.Fields, func(a, b Field) bool { return a.Name == b.Name })
	return r
}

func fieldOf(p storage.Property) (Field, bool) {
	f, ok := fieldNamed(p.Name)
	if !ok {
		return Field{}, false
	}
	f.Type, f.Value = p.Type, p.Value
	if f.Nested {
		return f, p.Type == storage.String && isNested(p.Text())
	}
	if v, err := normalize(p.Type, p.Value); err == nil {
		f.Value = v
	} else if p.Type == storage.Double {
		f.Value = shortest(p.Value) // the text may have more digits than the Double needs
	}
	return f, true
}

func (r *Record) sort() {
	slices.SortStableFunc(r.Fields, func(a, b Field) int { return cmp.Compare(a.Name, b.Name) })
}

// AppendJSON appends the record to b as a JSON object.
func (r Record) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	for i, f := range r.Fields {
		if i > 0 {
			b = append(b, ',')
		}
		if f.annotated() {
			b = appendString(b, f.Name+typeSuffix)
			b = append(b, `:"`...)
			b = append(b, f.Type.String()...)
			b = append(b, `",`...)
		}
		b = appendString(b, f.Name)
		b = append(b, ':')
		b = f.appendValue(b)
	}
	return append(b, '}')
}

func (r Record) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil), nil }

// annotated reports whether the field's JSON does not show its type, so that the field needs an annotation.
func (f Field) annotated() bool {
	switch f.Type {
	case storage.String, storage.Boolean, storage.Int32:
		return false
	case storage.Int64:
		return !f.plainInt64()
	case storage.Double:
		return f.Value.Kind() == '"' // the JSON of NaN and the infinities is a string
	}
	return true
}

// plainInt64 reports whether an Int64 is written as a number without an annotation. Such a number lies
// between -2^53 and 2^53, where JavaScript's numbers are exact. It does not fit into an Int32, so readers do not take it
// for an Int32.
func (f Field) plainInt64() bool {
	const exact = 1 << 53
	n, err := strconv.ParseInt(f.text(), 10, 64)
	return err == nil && int64(int32(n)) != n && -exact <= n && n <= exact
}

func (f Field) appendValue(b []byte) []byte {
	if f.Nested || f.Type == storage.Int64 && f.plainInt64() {
		return append(b, f.text()...)
	}
	return append(b, f.Value...)
}

func appendString(b []byte, s string) []byte {
	// This cannot fail, because names and texts were checked on input.
	b, _ = jsontext.AppendQuote(b, s)
	return b
}

// Equal reports whether both records have the same fields with the same types and values.
func Equal(a, b Record) bool { return bytes.Equal(a.canonical(), b.canonical()) }

// Hash returns 32 hex digits of SHA-256. Equal records have the same hash.
func (r Record) Hash() string {
	sum := sha256.Sum256(r.canonical())
	return hex.EncodeToString(sum[:16])
}

// canonical returns bytes that are equal if and only if the records are equal. Doubles keep the text of the input. All other
// values were normalized on input.
func (r Record) canonical() []byte {
	var b []byte
	for _, f := range r.Fields {
		value := f.Value
		if f.Type == storage.Double {
			value = shortest(value)
		}
		b = binary.AppendUvarint(b, uint64(len(f.Name)))
		b = append(b, f.Name...)
		b = strconv.AppendBool(append(b, byte(f.Type)), f.Nested)
		b = binary.AppendUvarint(b, uint64(len(value)))
		b = append(b, value...)
	}
	return b
}
