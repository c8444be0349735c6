package record

import (
	"slices"
	"strconv"
	"strings"
)

// A property's name must be a C# identifier of at most 255 characters, and three names are reserved (Microsoft Learn,
// "Understanding the Table service data model"). A field whose name is such an identifier in ASCII is stored in a property of
// the same name. Other names are escaped. An escaped name consists of a prefix and the field's name. In the field's name, _HEX_
// replaces every character except letters and digits:
//
//	first name    tsw_x_first_20_name
//	it's          tsw_x_it_27_s
//	PartitionKey  tsw_x_PartitionKey
//
// If the field's value is an object or an array, the field's name is always escaped, and the prefix is tsw_j_.
const (
	maxNameLength = 255
	escapedPrefix = OwnPrefix + "x_"
	nestedPrefix  = OwnPrefix + "j_"
)

var reservedNames = []string{"PartitionKey", "RowKey", "Timestamp"}

// property returns the name of the property that stores the field.
func (f Field) property() string {
	switch {
	case f.Nested:
		return nestedPrefix + escape(f.Name)
	case isPlain(f.Name):
		return f.Name
	}
	return escapedPrefix + escape(f.Name)
}

// fieldNamed returns the field, without its value, that is stored in a property with the given name. If such a property does
// not store a field, ok is false.
func fieldNamed(property string) (f Field, ok bool) {
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
	return f, f.Name != "" && f.property() == property // a name has only one valid escaped form
}

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

// unescape is the inverse of escape. If the text is not a result of escape, unescape may return any text.
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
