package record

import (
	"slices"
	"strconv"
	"strings"
)

// Property names are C# identifiers of at most 255 characters, and three are reserved.
// (Microsoft Learn, "Understanding the Table service data model") A field with such an ASCII
// name is stored in a property of that name. Other names are escaped: a
// prefix, then letters and digits unchanged, and every other character, including the
// underscore, as _HEX_:
//
//	first name    tsw_x_first_20_name
//	it's          tsw_x_it_27_s
//	PartitionKey  tsw_x_PartitionKey
//
// The name of a field with an object or array is always escaped, with another prefix.
const (
	maxNameLength = 255
	escapedPrefix = OwnPrefix + "x_"
	nestedPrefix  = OwnPrefix + "j_"
)

var reservedNames = []string{"PartitionKey", "RowKey", "Timestamp"}

// property returns the name of the property that holds the field.
func (f Field) property() string {
	switch {
	case f.Nested:
		return nestedPrefix + escape(f.Name)
	case isPlain(f.Name):
		return f.Name
	}
	return escapedPrefix + escape(f.Name)
}

// named is the inverse of property. The field has no value. ok is false if no field has such a property.
func named(property string) (f Field, ok bool) {
	if !strings.HasPrefix(property, OwnPrefix) {
		return Field{Name: property}, true
	}
	escaped, nested := strings.CutPrefix(property, nestedPrefix)
	if !nested {
		if escaped, ok = strings.CutPrefix(property, escapedPrefix); !ok {
			return Field{}, false
		}
	}
	f = Field{Name: unescape(escaped), Nested: nested}
	return f, f.Name != "" && f.property() == property // only one escaped form is valid
}

// isPlain reports whether the name needs no escaping.
func isPlain(name string) bool {
	for i := range len(name) {
		if c := name[i]; c != '_' && !isLetter(c) && (i == 0 || !isDigit(c)) {
			return false
		}
	}
	return name != "" && !slices.Contains(reservedNames, name) && !strings.HasPrefix(name, OwnPrefix)
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }

func escape(name string) string {
	var b []byte
	for _, r := range name {
		if r < 0x80 && (isLetter(byte(r)) || isDigit(byte(r))) {
			b = append(b, byte(r))
			continue
		}
		b = append(b, '_')
		b = strconv.AppendInt(b, int64(r), 16)
		b = append(b, '_')
	}
	return string(b)
}

// unescape reverses escape. For any other text, the result is arbitrary.
func unescape(escaped string) string {
	var b strings.Builder
	for escaped != "" {
		plain, rest, _ := strings.Cut(escaped, "_")
		b.WriteString(plain)
		digits, after, found := strings.Cut(rest, "_")
		if r, err := strconv.ParseInt(digits, 16, 32); err == nil && found {
			b.WriteRune(rune(r))
		}
		escaped = after
	}
	return b.String()
}
