package rowmap

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/itchyny/gojq"

	"tablesweep/internal/key/odata"
	"tablesweep/internal/storage"
)

// maxRowBytes is the maximum number of bytes of a row's values.
const maxRowBytes = 1 << 20

// typeSuffix ends the name of a member that states a property's type.
const typeSuffix = "@odata.type"

type row struct {
	storage.Entity
	values []any
}

func (r *row) input() (map[string]any, error) {
	in := make(map[string]any, len(r.Properties)+2)
	in[odata.PartitionKey], in[odata.RowKey] = r.Key.Partition, r.Key.Row
	r.values = make([]any, len(r.Properties))
	for i, p := range r.Properties {
		v, err := valueOf(p)
		if err != nil {
			return nil, err
		}
		r.values[i], in[p.Name] = v, v
	}
	return in, nil
}

// valueOf returns a property's value in the form that a program reads.
func valueOf(p storage.Property) (v any, err error) {
	switch p.Type {
	case storage.Boolean:
		return string(p.Value) == "true", nil
	case storage.Int32, storage.Int64:
		n, err := strconv.ParseInt(p.Text(), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s is not an %v", p.Name, p.Type)
		}
		if int64(int(n)) != n {
			return big.NewInt(n), nil
		}
		return int(n), nil
	case storage.Double:
		f, err := strconv.ParseFloat(p.Text(), 64)
		if err != nil {
			return nil, fmt.Errorf("%s is not an %v", p.Name, p.Type)
		}
		return f, nil
	}
	text, _ := p.Lossy() // half a surrogate pair is lost here; if the program does not change the value, it is restored later
	return text, nil
}

// output converts a program's output to a row. It calls the function `changed` for each property whose type has
// changed without an annotation.
func (r *row) output(v any, changed func(Change)) (e storage.Entity, err error) {
	out, ok := v.(map[string]any)
	if !ok {
		return e, fmt.Errorf("the jq program returns %s, not a row", strings.TrimPrefix(withArticle(gojq.TypeOf(v))+" "+gojq.Preview(v), "null "))
	}
	for _, k := range []struct {
		name string
		to   *string
	}{{odata.PartitionKey, &e.Key.Partition}, {odata.RowKey, &e.Key.Row}} {
		text, ok := out[k.name].(string)
		if !ok {
			return e, fmt.Errorf("the program returns a row whose %s is %s, not a string", k.name, gojq.Preview(out[k.name]))
		}
		if !utf8.ValidString(text) {
			return e, fmt.Errorf("%s is not valid Unicode", k.name)
		}
		*k.to = text
	}
	e.Properties = make([]storage.Property, 0, len(out))
	known := 2
	for _, p := range r.Properties {
		if _, there := out[p.Name]; there {
			known++
		}
	}
	bytes := 0
	add := func(name string, v any, was *storage.Property, before any) error {
		var as any
		if known < len(out) {
			as = out[name+typeSuffix]
		}
		p, err := property(name, v, as, was, before)
		if err != nil {
			return err
		}
		if was == nil {
			was = r.movedOf(v, out)
		}
		if as == nil && was != nil && was.Type != p.Type {
			changed(Change{name, was.Type, p.Type})
		}
		if bytes += len(p.Name) + len(p.Value); bytes > maxRowBytes {
			return fmt.Errorf("the program returns a row of more than %d MiB", maxRowBytes>>20)
		}
		e.Properties = append(e.Properties, p)
		return nil
	}
	for i, p := range r.Properties {
		if v := out[p.Name]; v != nil {
			if err := add(p.Name, v, &r.Properties[i], r.values[i]); err != nil {
				return e, err
			}
		}
	}
	if known < len(out) {
		for _, name := range r.newNames(out) {
			if err := add(name, out[name], nil, nil); err != nil {
				return e, err
			}
		}
	}
	return e, nil
}

// newNames returns the sorted names of the output properties that the input row does not have.
func (r *row) newNames(out map[string]any) (names []string) {
	for name, v := range out {
		switch {
		case v == nil, strings.HasSuffix(name, typeSuffix), strings.HasPrefix(name, "odata."):
		case name == odata.PartitionKey, name == odata.RowKey, name == "Timestamp":
		case slices.ContainsFunc(r.Properties, func(p storage.Property) bool { return p.Name == name }):
		default:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// movedOf returns the input property that the program has probably renamed. This property has the value v, and its name is not
// in the output. If no property meets both conditions, the result is nil.
func (r *row) movedOf(v any, out map[string]any) *storage.Property {
	for i, p := range r.Properties {
		if _, there := out[p.Name]; !there && equalValues(r.values[i], v) {
			return &r.Properties[i]
		}
	}
	return nil
}

// property returns the property for a value v. The argument `stated` is the type that the program states, or nil. The argument
// `original` is the input row's property of the same name, and `originalValue` is that property's value. If the row has no such
// property, `original` and `originalValue` are nil.
func property(name string, v, stated any, original *storage.Property, originalValue any) (p storage.Property, err error) {
	if n, ok := v.(json.Number); ok {
		v = plainNumber(n)
	}
	switch v.(type) {
	case []any, map[string]any:
		return p, fmt.Errorf("%s is %s, but a property has a single value; the jq function tojson converts the value to text", name, withArticle(gojq.TypeOf(v)))
	}
	if original == nil && !storage.IsPropertyName(name) {
		return p, fmt.Errorf("%q is not a property name; use letters, digits and underscores", name)
	}
	if stated != nil {
		text, _ := stated.(string)
		t, known := odata.ParseType(text)
		if !known {
			return p, fmt.Errorf("%s%s is %s, which is not a type", name, typeSuffix, gojq.Preview(stated))
		}
		p, ok := propertyOf(name, t, v)
		if text, isText := v.(string); !ok && isText { // the text may represent a value of this type, as the JSON text of an Int64 does
			p, err = storage.ParseProperty(name, t, text)
			ok = err == nil
		}
		if !ok {
			return p, fmt.Errorf("%s is %s, which is not an %v", name, gojq.Preview(v), t)
		}
		return p, nil
	}
	if original != nil {
		if equalValues(originalValue, v) {
			return *original, nil
		}
		if p, ok := propertyOf(name, original.Type, v); ok {
			return p, nil
		}
	}
	for _, t := range []storage.Type{storage.String, storage.Boolean, storage.Int32, storage.Double} {
		if p, ok := propertyOf(name, t, v); ok {
			return p, nil
		}
	}
	if text, isText := v.(string); isText && !utf8.ValidString(text) {
		return p, fmt.Errorf("%s is not valid Unicode", name)
	}
	if _, ok := propertyOf(name, storage.Int64, v); ok {
		return p, fmt.Errorf(`%s is %s, which a Double cannot store exactly; to store an Int64, add "%s%s": "Edm.Int64"`, name, gojq.Preview(v), name, typeSuffix)
	}
	return p, fmt.Errorf("%s is %s, which no number type can store; the jq function tostring converts the value to text", name, gojq.Preview(v))
}

// propertyOf returns a property with the given type and value. If the type does not allow the value, ok is false.
func propertyOf(name string, t storage.Type, v any) (p storage.Property, ok bool) {
	text := ""
	switch v := v.(type) {
	case bool:
		text, ok = strconv.FormatBool(v), t == storage.Boolean
	case int, *big.Int:
		text, ok = fmt.Sprint(v), t == storage.Int32 || t == storage.Int64
		if f, _ := gojq.ToFloat64(v); t == storage.Double && exact(f, text) {
			text, ok = strconv.FormatFloat(f, 'f', 1, 64), true
		}
	case float64:
		switch {
		case t == storage.Double && math.IsNaN(v):
			text, ok = "NaN", true
		case t == storage.Double && math.IsInf(v, 1):
			text, ok = "Infinity", true
		case t == storage.Double && math.IsInf(v, -1):
			text, ok = "-Infinity", true
		case t == storage.Double:
			if text, ok = strconv.FormatFloat(v, 'g', -1, 64), true; !strings.ContainsAny(text, ".e") {
				text += ".0"
			}
		case v == math.Trunc(v) && math.Abs(v) < 1<<63:
			text, ok = strconv.FormatInt(int64(v), 10), t == storage.Int32 || t == storage.Int64
		}
	case string:
		text = v
		ok = t == storage.String || t == storage.DateTime || t == storage.GUID || t == storage.Binary
	}
	if !ok {
		return p, false
	}
	p, err := storage.ParseProperty(name, t, text)
	return p, err == nil
}

// exact reports whether a Double exactly equals the whole number in the text.
func exact(f float64, text string) bool { return strconv.FormatFloat(f, 'f', 0, 64) == text }

// equalValues reports whether two values are equal. Equal numbers may have different types in Go.
func equalValues(a, b any) bool {
	if a == b {
		return true
	}
	switch a.(type) {
	case int, *big.Int, float64:
		switch b = plainNumber(b); b.(type) {
		case int, *big.Int, float64:
			return sameNumber(a, b)
		}
	}
	return false
}

// sameNumber reports whether two numbers are exactly equal. It does not convert whole numbers to floating point, because the
// conversion could round them.
func sameNumber(a, b any) bool {
	f, isFloat := a.(float64)
	g, isFloatToo := b.(float64)
	m, isInt := a.(int)
	n, isIntToo := b.(int)
	switch {
	case isInt && isIntToo:
		return m == n
	case isFloat && isFloatToo:
		return math.Float64bits(f) == math.Float64bits(g) || f != f && g != g
	case isFloat:
		return exact(f, fmt.Sprint(b))
	case isFloatToo:
		return exact(g, fmt.Sprint(a))
	}
	return fmt.Sprint(a) == fmt.Sprint(b)
}

// plainNumber converts a [json.Number], which the jq function fromjson returns, to an int, *big.Int or float64. It returns any
// other value unchanged.
func plainNumber(v any) any {
	n, ok := v.(json.Number)
	if !ok {
		return v
	}
	if whole, ok := new(big.Int).SetString(n.String(), 10); ok {
		if whole.IsInt64() && int64(int(whole.Int64())) == whole.Int64() {
			return int(whole.Int64())
		}
		return whole
	}
	f, _ := n.Float64()
	return f
}

func withArticle(name string) string {
	switch name {
	case "null":
		return name
	case "array", "object":
		return "an " + name
	}
	return "a " + name
}
