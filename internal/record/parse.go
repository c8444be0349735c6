package record

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"tablesweep/internal/input"
	"tablesweep/internal/key"
	"tablesweep/internal/key/odata"
	"tablesweep/internal/problem"
	"tablesweep/internal/storage"
)

// Limits of a record. They are below the limits of a row (252 properties and 1 MiB), because the row also has keys and other
// columns. (https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model)
const (
	maxFields = 240
	maxBytes  = 960 << 10 // bytes of a record as the service counts them: names and strings in UTF-16
	maxValue  = 64 << 10  // bytes of a String in UTF-16, or of a Binary
	maxDepth  = 64        // maximum depth of nested objects and arrays

	// maxMembers is the maximum number of names in a record or a patch. maxMembers exceeds maxFields, because fields may have
	// annotations, and a patch may name fields to remove.
	maxMembers = 4 * maxFields
	// maxErrors is the maximum number of errors reported for a record.
	maxErrors = 20
	// maxNested is the maximum number of members of a nested object. A nested object with more members does not fit into a
	// property's value.
	maxNested = maxValue / 4
)

const typeSuffix = "@odata.type"

// Parse reads a record from a JSON object. It joins all errors. Each error is a [problem.Error] that names the field and the
// correction.
func Parse(data []byte) (Record, error) {
	members, err := split(data, maxMembers)
	if err != nil {
		return Record{}, err
	}
	return parse(members)
}

func parse(members []member) (Record, error) {
	types, err := annotations(members)
	errs := []error{err}
	r := Record{Fields: make([]Field, 0, len(members)-len(types))}
	for _, m := range members {
		if strings.HasSuffix(m.name, typeSuffix) || m.value.Kind() == 'n' {
			continue
		}
		f, err := parseField(m, types)
		if err != nil {
			errs = append(errs, err)
		}
		if len(errs) > maxErrors {
			break
		}
		r.Fields = append(r.Fields, f)
	}
	if err := errors.Join(errs...); err != nil {
		return Record{}, err
	}
	r.sort()
	return r, r.check()
}

type member struct {
	name  string
	value jsontext.Value // shares the memory of the parsed text
}

// split divides an object into its members. It fails if the object has more members than limit.
func split(data []byte, limit int) ([]member, error) {
	if !utf8.Valid(data) {
		return nil, problem.Invalidf("", "is not valid UTF-8; send JSON in UTF-8")
	}
	// The decoder accepts a string with half a surrogate pair, because parseField refuses it with an error that names its field.
	dec := jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowInvalidUTF8(true))
	if dec.PeekKind() != '{' {
		return nil, problem.Invalidf("", "must be a JSON object, such as {\"name\":\"value\"}")
	}
	_, err := dec.ReadToken()
	var members []member
	for err == nil && dec.PeekKind() == '"' {
		var m member
		if len(members) == limit {
			return nil, problem.TooLargef("", "the object has too many fields: a record has at most %d; leave some of them out", maxFields)
		}
		if m, err = readMember(dec, data); err == nil {
			members = append(members, m)
		}
	}
	if err == nil {
		_, err = dec.ReadToken()
	}
	if err == nil {
		if _, err = dec.ReadToken(); errors.Is(err, io.EOF) {
			return members, nil
		}
		return nil, problem.Invalidf("", "there is text after the JSON object; send one object")
	}
	return nil, syntaxError(data, err)
}

func readMember(dec *jsontext.Decoder, data []byte) (member, error) {
	quoted, err := dec.ReadValue()
	if err != nil {
		return member{}, err
	}
	name, err := jsontext.AppendUnquote(nil, quoted)
	if err != nil {
		return member{}, problem.Invalidf("", "the field name %s is not valid Unicode", quoted)
	}
	value, err := dec.ReadValue()
	if err != nil {
		return member{}, err
	}
	end := dec.InputOffset()
	return member{name: string(name), value: data[end-int64(len(value)) : end]}, nil
}

func syntaxError(data []byte, err error) error {
	var p *problem.Error
	if errors.As(err, &p) {
		return p
	}
	var s *jsontext.SyntacticError
	if errors.As(err, &s) && errors.Is(err, jsontext.ErrDuplicateName) {
		return problem.Invalidf(strings.TrimPrefix(string(s.JSONPointer), "/"), "is given twice; give each name once")
	}
	return problem.Invalidf("", "is not valid JSON").Because(input.Located(data, err))
}

// annotations returns the type of each field that has an annotation. The map's keys are the fields' names.
func annotations(members []member) (map[string]storage.Type, error) {
	types := map[string]storage.Type{}
	var errs []error
	for _, m := range members {
		of, ok := strings.CutSuffix(m.name, typeSuffix)
		if !ok {
			continue
		}
		t, known := odata.ParseType(storage.Property{Value: m.value}.Text())
		if !known || m.value.Kind() != '"' {
			if len(errs) == maxErrors {
				break
			}
			errs = append(errs, problem.Invalidf(m.name, "must be one of Edm.String, Edm.Boolean, Edm.Int32, Edm.Int64, Edm.Double, Edm.DateTime, Edm.Guid, Edm.Binary"))
			continue
		}
		types[of] = t
	}
	given := map[string]bool{}
	for _, m := range members {
		given[m.name] = true
	}
	for _, of := range slices.Sorted(maps.Keys(types)) {
		if !given[of] && len(errs) < maxErrors {
			errs = append(errs, problem.Invalidf(of+typeSuffix, "contains the type of the field %q, but that field is missing; add the missing field, or rename this field so that its name does not end with %s", of, typeSuffix))
		}
	}
	return types, errors.Join(errs...)
}

func parseField(m member, types map[string]storage.Type) (Field, error) {
	f := Field{Name: m.name}
	if f.Name == "" {
		return f, problem.Invalidf("", "the name of a field is empty; give the field a name")
	}
	t, annotated := types[m.name]
	kind := m.value.Kind()
	if !m.value.IsValid() { // the syntax is correct, so the value must contain an invalid string
		return f, problem.Invalidf(m.name, "contains half a surrogate pair, which is not a character; send whole characters")
	}
	if f.Nested = kind == '{' || kind == '['; f.Nested {
		if annotated {
			return f, problem.Invalidf(m.name, "is an object or array, which cannot have the type %v; leave the type out", t)
		}
		var err error
		if f.Value, err = nest(m); err != nil {
			return f, err
		}
	} else {
		if !annotated {
			t = plainType(m.value)
		}
		f.Type = t
		var err error
		if f.Value, err = normalize(t, m.value); err != nil {
			return f, problem.Invalidf(m.name, "%v", err)
		}
	}
	if n := len(f.property()); n > maxNameLength {
		return f, problem.Invalidf(m.name, "has a name that is too long: its encoded form has %d characters, but at most %d are allowed; choose a shorter name", n, maxNameLength)
	}
	n, most, unit := f.valueBytes(), maxValue, "bytes"
	if f.Type == storage.String {
		n, most, unit = n/2, most/2, "characters of UTF-16"
	}
	if n > most {
		return f, problem.TooLargef(m.name, "has %d %s, but at most %d are allowed; divide the value into several fields", n, unit, most)
	}
	return f, nil
}

func (r Record) check() error {
	if n := len(r.Fields); n > maxFields {
		return problem.TooLargef("", "the object has %d fields, but at most %d are allowed; put some of them into a nested object", n, maxFields)
	}
	if n := r.Size(); n > maxBytes {
		return problem.TooLargef("", "the object takes %d bytes, but at most %d are allowed; leave out fields, or shorten them", n, maxBytes)
	}
	return nil
}

// Size returns the number of bytes that the record takes in a row. It counts bytes by the rules in "Understanding Windows Azure
// Storage Billing" (a text by the service's team).
func (r Record) Size() int {
	n := 0
	for _, f := range r.Fields {
		n += 8 + 2*len(f.property()) + f.valueBytes()
		if f.Type == storage.String || f.Type == storage.Binary {
			n += 4
		}
	}
	return n
}

func (f Field) valueBytes() int {
	switch f.Type {
	case storage.String:
		return 2 * key.Units(f.text())
	case storage.Binary:
		return len(f.text())/4*3 - strings.Count(f.text(), "=")
	case storage.Boolean:
		return 1
	case storage.Int32:
		return 4
	case storage.GUID:
		return 16
	}
	return 8
}
