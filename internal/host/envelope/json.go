package envelope

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// object is a JSON object under construction: keys in order of arrival, values as
// JSON text. A key that is set again keeps its place and its first spelling:
// the host's binding data is a dictionary that ignores case.
type object struct {
	keys   []string
	values map[string]string // by lower-case key
}

func (o *object) set(key, value string) {
	lower := strings.ToLower(key)
	if o.values == nil {
		o.values = map[string]string{}
	}
	if _, ok := o.values[lower]; !ok {
		o.keys = append(o.keys, key)
	}
	o.values[lower] = value
}

// String returns the object's JSON text.
func (o *object) String() string {
	var b strings.Builder
	b.WriteByte('{')
	for i, key := range o.keys {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(quote(key))
		b.WriteByte(':')
		b.WriteString(o.values[strings.ToLower(key)])
	}
	b.WriteByte('}')
	return b.String()
}

// quote writes a JSON string as Newtonsoft.Json does: it escapes quotes,
// backslashes, control characters and the line ends U+0085, U+2028 and U+2029, and
// nothing else. (JavaScriptUtils of Newtonsoft.Json)
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch r {
		case '"', '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case '\b':
			b.WriteString(`\b`)
		case '\f':
			b.WriteString(`\f`)
		case '\n':
			b.WriteString(`\n`)
		case '\r':
			b.WriteString(`\r`)
		case '\t':
			b.WriteString(`\t`)
		case '\u0085', '\u2028', '\u2029':
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			if r < ' ' {
				fmt.Fprintf(&b, `\u%04x`, r)
			} else {
				b.WriteRune(r)
			}
		}
	}
	b.WriteByte('"')
	return b.String()
}

// twice writes a .NET string: the host serializes it, and the result
// becomes a string of the document.
func twice(s string) string { return quote(quote(s)) }

// offset writes a DateTimeOffset in UTC, which the host cuts to seconds.
func offset(t time.Time) string { return quote(t.UTC().Format("2006-01-02T15:04:05+00:00")) }

// scalars returns the properties of a JSON object that the host adds to the
// metadata, in order: scalars as the strings that .NET converts them to, and objects.
// Null, lists, and messages that are no JSON object give nothing.
func scalars(message string) *object {
	o := &object{}
	d := json.NewDecoder(strings.NewReader(message))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return &object{}
	}
	for d.More() {
		key, err := d.Token()
		var raw json.RawMessage
		if err != nil || d.Decode(&raw) != nil {
			return &object{}
		}
		if v, ok := scalar(raw); ok {
			o.set(key.(string), v)
		}
	}
	if _, err := d.Token(); err != nil || d.More() {
		return &object{}
	}
	return o
}

func scalar(raw json.RawMessage) (string, bool) {
	switch c := raw[0]; {
	case c == 'n', c == '[':
		return "", false
	case c == '{':
		var b bytes.Buffer
		_ = json.Compact(&b, raw) // raw is valid: it was decoded
		return b.String(), true
	case c == 't':
		return twice("True"), true
	case c == 'f':
		return twice("False"), true
	case c == '"':
		var s string
		_ = json.Unmarshal(raw, &s)
		return twice(date(s)), true
	}
	return twice(number(string(raw))), true
}

// date converts a string that Newtonsoft.Json takes for a date: .NET prints
// a DateTime in its invariant culture.
func date(s string) string {
	if len(s) < 19 || len(s) > 40 || s[10] != 'T' {
		return s
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC().Format("01/02/2006 15:04:05")
		}
	}
	return s
}

// number returns a JSON number as .NET prints it: whole numbers as they are,
// others as the shortest text of the float64.
func number(s string) string {
	if !strings.ContainsAny(s, ".eE") {
		return s
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return s
	}
	if a := math.Abs(f); a == 0 || a >= 1e-5 && a < 1e15 {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return strconv.FormatFloat(f, 'E', -1, 64)
}
