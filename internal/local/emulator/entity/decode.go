package entity

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"tablesweep/internal/key"
	"tablesweep/internal/key/odata"
	"tablesweep/internal/local/emulator/refusal"
)

// Entity is a decoded request body.
type Entity struct {
	Key                  key.Key
	HasPartition, HasRow bool // whether the body contains the key
	Properties           Properties
}

const typeSuffix = "@odata.type"

// Decoder decodes entities. The zero value is ready to use.
type Decoder struct {
	json       jsontext.Decoder
	source     bytes.Buffer // the input of json
	properties []member
	types      []member
	rendered   []byte // a reused buffer
}

// Decode decodes a client's entity. Like the service, it drops null properties and all system properties except the keys. The
// error is a *refusal.Error.
func (d *Decoder) Decode(body []byte) (Entity, error) {
	if err := d.split(body); err != nil {
		return Entity{}, err
	}
	var err error
	var e Entity
	rendered := d.rendered[:0]
	for _, p := range d.properties {
		switch {
		case p.name == odata.PartitionKey:
			e.Key.Partition, err = keyValue(p)
			e.HasPartition = true
		case p.name == odata.RowKey:
			e.Key.Row, err = keyValue(p)
			e.HasRow = true
		case p.name == odata.Timestamp || p.value[0] == 'n': // null
		default:
			if len(rendered) > 0 {
				rendered = append(rendered, ',')
			}
			rendered, err = appendProperty(rendered, p, d.typeName(p.name))
		}
		if err != nil {
			return Entity{}, err
		}
	}
	d.rendered = rendered
	e.Properties = Properties(rendered)
	return e, nil
}

// typeName returns the type in a property's annotation, or "".
func (d *Decoder) typeName(property string) string {
	for _, a := range d.types {
		if a.name == property {
			return a.value
		}
	}
	return ""
}

// member pairs a property's name with its JSON text or, for an annotation, with its type.
type member struct{ name, value string }

func invalidInput(format string, args ...any) error {
	return refusal.New("InvalidInput", "An error occurred while processing this request. ("+fmt.Sprintf(format, args...)+")")
}

// split fills d.properties and d.types with substrings of one copy of the body.
func (d *Decoder) split(body []byte) error {
	d.properties, d.types = d.properties[:0], d.types[:0]
	d.source = *bytes.NewBuffer(body)
	d.json.Reset(&d.source)
	text := string(body)
	if t, err := d.json.ReadToken(); err != nil || t.Kind() != '{' {
		return invalidInput("the body is not a JSON object")
	}
	for d.json.PeekKind() != '}' {
		quoted, err := d.readValue(text)
		if err != nil {
			return err
		}
		name, err := unquote(quoted)
		if err != nil {
			return err
		}
		value, err := d.readValue(text)
		if err != nil {
			return err
		}
		if of, ok := strings.CutSuffix(name, typeSuffix); ok {
			typeName, err := unquote(value)
			if err != nil {
				return err
			}
			d.types = append(d.types, member{of, typeName})
		} else if !strings.HasPrefix(name, "odata.") {
			d.properties = append(d.properties, member{name, value})
		}
	}
	if _, err := d.json.ReadToken(); err != nil { // the closing brace
		return badJSON(err)
	}
	if _, err := d.json.ReadToken(); !errors.Is(err, io.EOF) {
		return invalidInput("the body has more than one JSON object")
	}
	return nil
}

func badJSON(err error) error {
	if errors.Is(err, jsontext.ErrDuplicateName) {
		return refusal.New("DuplicatePropertiesSpecified", "A property is specified more than one time.")
	}
	if strings.Contains(err.Error(), "invalid surrogate pair") { // package jsontext has no value for this error
		return invalidInput("a text has half a surrogate pair, which embedded storage does not keep")
	}
	return invalidInput("the body is not a JSON object")
}

// readValue reads the next name or value as a substring of whole.
func (d *Decoder) readValue(whole string) (string, error) {
	v, err := d.json.ReadValue()
	if err != nil {
		return "", badJSON(err)
	}
	end := int(d.json.InputOffset())
	return whole[end-len(v) : end], nil
}

func keyValue(p member) (string, error) {
	if p.value[0] == 'n' {
		return "", refusal.New("PropertiesNeedValue", "The values are not specified for all properties in the entity: "+p.name+" is null.")
	}
	s, err := unquote(p.value)
	if err != nil {
		return "", err
	}
	return s, CheckKey(p.name, s)
}

// unquote returns the text of a JSON string, or an error for any other value.
func unquote(value string) (string, error) {
	if len(value) < 2 || value[0] != '"' {
		return "", invalidInput("%.40s should be a string", value)
	}
	if strings.IndexByte(value, '\\') < 0 {
		return value[1 : len(value)-1], nil
	}
	text, err := jsontext.AppendUnquote(nil, value)
	if err != nil {
		return "", badJSON(err)
	}
	return string(text), nil
}

// appendProperty checks a property and appends its stored form.
func appendProperty(b []byte, p member, typeName string) ([]byte, error) {
	if err := checkName(p.name); err != nil {
		return b, err
	}
	t, err := typeOf(p, typeName)
	if err != nil {
		return b, err
	}
	text, err := normalize(p, t)
	if err != nil {
		return b, err
	}
	if needsAnnotation(t, text) {
		b = append(b, '"')
		b = append(b, p.name...)
		b = append(b, typeSuffix...)
		b = append(b, `":"`...)
		b = append(b, t.String()...)
		b = append(b, `",`...)
	}
	b = append(b, '"')
	b = append(b, p.name...)
	b = append(b, `":`...)
	return append(b, text...), nil
}

// needsAnnotation reports whether the type cannot be recognized from the value's JSON text.
func needsAnnotation(t odata.Type, text string) bool {
	switch t {
	case odata.String, odata.Int32, odata.Boolean:
		return false
	case odata.Double:
		return text[0] == '"' // a number in quotes is NaN or an infinity
	}
	return true
}

// typeOf returns the annotated type, or the type that the service infers.
func typeOf(p member, typeName string) (odata.Type, error) {
	if typeName != "" {
		t, ok := odata.ParseType(typeName)
		if !ok {
			return 0, invalidInput("property %s has the unknown type %q", p.name, typeName)
		}
		return t, nil
	}
	if p.value[0] == '{' || p.value[0] == '[' {
		return 0, invalidInput("property %s is not a primitive value", p.name)
	}
	return odata.Implied(p.value), nil
}

// normalize returns the value's stored JSON text. With an annotation, a number or a boolean may be sent as a string.
// Numbers and booleans are stored in their shortest form.
func normalize(p member, t odata.Type) (string, error) {
	text := p.value
	switch t {
	case odata.String:
		s, err := unquote(text)
		if err == nil && 2*key.Units(s) > maxPropertyBytes {
			err = tooLarge(p.name)
		}
		return text, err
	case odata.Boolean:
		if b, ok := odata.ParseBoolean(unquoted(text)); ok {
			return strconv.FormatBool(b.Int != 0), nil
		}
	case odata.Int32:
		if i, err := strconv.ParseInt(unquoted(text), 10, 32); err == nil {
			return strconv.FormatInt(i, 10), nil
		}
	case odata.Double:
		if d, ok := normalizeDouble(unquoted(text)); ok {
			return d, nil
		}
	case odata.Int64:
		if i, err := strconv.ParseInt(unquoted(text), 10, 64); err == nil {
			return quote(strconv.FormatInt(i, 10)), nil
		}
	default:
		return normalizeQuoted(p, t)
	}
	return "", invalidInput("property %s: %.40s is not an %v", p.name, text, t)
}

// unquoted returns the text inside the quotes of a JSON string, and any other text unchanged.
func unquoted(text string) string {
	if bare, ok := strings.CutPrefix(text, `"`); ok {
		return strings.TrimSuffix(bare, `"`)
	}
	return text
}

// normalizeDouble returns a Double in Azurite's form: the shortest text of the number, with a point or an exponent, and with 0.0 for a negative zero.
func normalizeDouble(text string) (string, bool) {
	if text == "NaN" || text == "Infinity" || text == "-Infinity" {
		return quote(text), true
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || strings.Trim(text, "0123456789+-.eE") != "" { // ParseFloat also accepts hexadecimal numbers
		return "", false
	}
	if f == 0 {
		return "0.0", true
	}
	shortest := jsontext.Float(f).String()
	if !strings.ContainsAny(shortest, ".e") {
		shortest += ".0"
	}
	return shortest, true
}

// normalizeQuoted normalizes values of the types that are sent as strings with an annotation.
func normalizeQuoted(p member, t odata.Type) (string, error) {
	s, err := unquote(p.value)
	if err != nil {
		return "", err
	}
	switch t {
	case odata.DateTime:
		ticks, ok := odata.ParseDateTime(s)
		if ok && ticks < minDateTimeTicks {
			return "", refusal.New("OutOfRangeInput", "The property "+p.name+" is before the year 1601.")
		}
		if ok {
			return quote(string(odata.AppendDateTime(nil, ticks))), nil
		}
	case odata.Guid:
		if guid, ok := odata.ParseGuid(s); ok {
			return quote(guid), nil
		}
	case odata.Binary:
		if data, ok := odata.ParseBinary(s); ok {
			if len(data) > maxPropertyBytes {
				return "", tooLarge(p.name)
			}
			return quote(s), nil
		}
	}
	return "", invalidInput("property %s: %.40q is not an %v", p.name, s, t)
}

// quote quotes a text that needs no escapes.
func quote(s string) string { return `"` + s + `"` }

func tooLarge(name string) error {
	return refusal.New("PropertyValueTooLarge", "The property value exceeds the maximum allowed size (64KB): "+name+".")
}

func checkName(name string) error {
	switch {
	case key.Units(name) > maxNameUnits:
		return refusal.New("PropertyNameTooLong", "The property name exceeds the maximum allowed length (255).")
	case name == "":
		return refusal.New("PropertyNameInvalid", "The property name is empty.")
	case !IsIdentifier(name):
		return refusal.New("PropertyNameInvalid", "The property name is invalid: "+name+".")
	}
	return nil
}

// IsIdentifier reports whether a name is a C# identifier, as the services require for properties and metadata.
func IsIdentifier(name string) bool {
	for i, r := range name {
		start := r == '_' || unicode.IsLetter(r) || unicode.Is(unicode.Nl, r)
		later := i > 0 && (unicode.IsDigit(r) || unicode.In(r, unicode.Mn, unicode.Mc, unicode.Pc, unicode.Cf))
		if !start && !later {
			return false
		}
	}
	return name != ""
}
