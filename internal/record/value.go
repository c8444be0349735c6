package record

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"tablesweep/internal/key"
	"tablesweep/internal/key/odata"
	"tablesweep/internal/problem"
	"tablesweep/internal/storage"
)

// plainType returns the type of a value that has no annotation. A whole number that does not fit into an Int32 is an Int64.
func plainType(v jsontext.Value) storage.Type {
	t := odata.Implied(v)
	if t == storage.Double && !bytes.ContainsAny(v, ".eE") {
		return storage.Int64
	}
	return t
}

// normalize checks that a value is valid for its type, and returns the value in the form that a property stores. The error
// describes the form that the value must have.
func normalize(t storage.Type, v jsontext.Value) (jsontext.Value, error) {
	switch t {
	case storage.Boolean:
		if v.Kind() == 't' || v.Kind() == 'f' {
			return bytes.Clone(v), nil
		}
		return nil, errors.New("must be true or false")
	case storage.Int32:
		if n, err := strconv.ParseInt(string(v), 10, 32); err == nil {
			return strconv.AppendInt(nil, n, 10), nil
		}
		return nil, fmt.Errorf("must be a whole number from %d to %d", math.MinInt32, math.MaxInt32)
	case storage.Int64:
		if n, err := strconv.ParseInt(strings.Trim(string(v), `"`), 10, 64); err == nil {
			return storage.Int64Property("", n).Value, nil
		}
		return nil, errors.New("must be a whole number of 64 bits; send a longer number as a string")
	case storage.Double:
		return normalizeDouble(v)
	}
	return normalizeString(t, v)
}

// normalizeString is normalize for a type whose values are strings in JSON.
func normalizeString(t storage.Type, v jsontext.Value) (jsontext.Value, error) {
	if v.Kind() != '"' {
		return nil, fmt.Errorf("must be a string, because its type is %v", t)
	}
	text, err := jsontext.AppendUnquote(nil, v)
	if err != nil {
		if t == storage.String {
			return bytes.Clone(v), nil // a String with half a surrogate pair, which parseField refuses
		}
		return nil, fmt.Errorf("is not valid Unicode, so it cannot be an %v", t)
	}
	switch t {
	case storage.DateTime:
		at, ok := odata.ParseDateTime(string(text))
		if !ok || at < storage.MinDateTime || at > key.MaxTicks {
			return nil, errors.New("must be a time in UTC such as 2026-02-03T04:05:06.1234567Z, in the years 1601 to 9999")
		}
		if !odata.KeepsTime(string(text)) {
			return nil, errors.New("has more than 7 decimal places in its seconds, but a DateTime keeps only 7; round the time, or send it as a string")
		}
		text = odata.AppendDateTime(nil, at)
	case storage.GUID:
		guid, ok := odata.ParseGuid(string(text))
		if !ok {
			return nil, errors.New("must be 32 hex digits in groups of 8-4-4-4-12")
		}
		text = []byte(guid)
	case storage.Binary:
		data, ok := odata.ParseBinary(string(text))
		if !ok {
			return nil, errors.New("must be padded base64 in the standard alphabet")
		}
		return storage.BinaryProperty("", []byte(data)).Value, nil
	}
	return jsontext.AppendQuote(nil, text)
}

// normalizeDouble returns the number's text. If the text has neither a point nor an exponent, ".0" is added. -0.0 becomes 0.0.
func normalizeDouble(v jsontext.Value) (jsontext.Value, error) {
	switch string(v) {
	case `"NaN"`, `"Infinity"`, `"-Infinity"`:
		return bytes.Clone(v), nil
	}
	if v.Kind() != '0' {
		return nil, errors.New(`must be a number, or one of "NaN", "Infinity" and "-Infinity"`)
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil {
		return nil, errors.New("lies beyond the range of a Double; send the number as a string")
	}
	if f == 0 && math.Signbit(f) { // the storage drops the sign of -0, so the answer to a write must not contain this sign
		return jsontext.Value("0.0"), nil
	}
	if !odata.KeepsNumber(string(v)) {
		return nil, fmt.Errorf("has more digits than a Double keeps, and would become %s; round the number, or send it as a string", shortest(v))
	}
	if bytes.ContainsAny(v, ".eE") {
		return bytes.Clone(v), nil
	}
	return append(bytes.Clone(v), ".0"...), nil
}

// shortest returns the shortest text of a Double. Equal Doubles have the same shortest text.
func shortest(v jsontext.Value) jsontext.Value {
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil {
		return v // NaN or an infinity, in quotes
	}
	if f == 0 {
		f = 0 // removes the sign
	}
	b := strconv.AppendFloat(nil, f, 'g', -1, 64)
	if bytes.ContainsAny(b, ".e") {
		return b
	}
	return append(b, ".0"...)
}

// nest returns the value of the String property that stores an object or array.
func nest(m member) (jsontext.Value, error) {
	if depth(m.value) > maxDepth {
		return nil, tooDeep(m)
	}
	compact := bytes.Clone(m.value)
	if err := (*jsontext.Value)(&compact).Compact(jsontext.AllowInvalidUTF8(true)); err != nil {
		return nil, problem.Invalidf(m.name, "is not valid JSON: %v", err)
	}
	return jsontext.AppendQuote(nil, compact)
}

// isNested reports whether the text can be a result of nest.
func isNested(text string) bool {
	m := member{value: jsontext.Value(text)}
	kind := m.value.Kind()
	if kind != '{' && kind != '[' || !m.value.IsValid(jsontext.AllowInvalidUTF8(true)) {
		return false
	}
	again, err := nest(m)
	return err == nil && storage.Property{Value: again}.Text() == text
}

// depth returns the nesting depth of objects and arrays in a valid value.
func depth(v jsontext.Value) int {
	open, deepest := 0, 0
	dec := jsontext.NewDecoder(bytes.NewBuffer(v), jsontext.AllowInvalidUTF8(true))
	for {
		if _, err := dec.ReadToken(); err != nil {
			return deepest
		}
		open = dec.StackDepth()
		deepest = max(deepest, open)
	}
}

func tooDeep(m member) error {
	return problem.Invalidf(m.name, "has more than %d levels of objects and arrays", maxDepth)
}
