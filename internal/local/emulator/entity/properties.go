// Package entity parses, checks and stores the properties of table rows.
//
// [Decoder] converts a client's JSON into [Properties]: the row's custom properties as one JSON text in the service's minimal-metadata form. Text has
// three advantages: most of a page is copied unchanged, the Double 3.0 does not become an Int32, and a row costs one allocation. The text does not
// contain the keys and the timestamp, which the table stores separately.
package entity

import (
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"tablesweep/internal/key"
	"tablesweep/internal/key/odata"
	"tablesweep/internal/local/emulator/refusal"
)

// The service's limits on an entity.
// https://learn.microsoft.com/rest/api/storageservices/understanding-the-table-service-data-model
const (
	maxProperties    = 252 // in addition to PartitionKey, RowKey and Timestamp
	maxPropertyBytes = 64 << 10
	maxEntityBytes   = 1 << 20
	maxNameUnits     = 255
	minDateTimeTicks = 504_911_232_000_000_000 // 1601-01-01

	// The documentation has two limits on a key: 1,024 characters, and 1 KiB, which is 512 units of two bytes.
	// maxKeyUnits is the stricter limit, so the service accepts every key up to this length.
	maxKeyUnits = 512
)

// Properties are a row's custom properties, as JSON members without the braces: `"A":1,"B@odata.type":"Edm.Int64","B":"2"`. Only a [Decoder] and Merge create
// them, so there is no white space, and names have no escapes. If a property's text does not show its type, an annotation comes directly before the property.
type Properties string

// Property is one member of Properties.
type Property struct {
	Name string
	Type odata.Type
	JSON string // the value's text
	Full string // the whole member, including its annotation
}

// All yields the properties in the order in which they were written.
func (p Properties) All() iter.Seq[Property] {
	return func(yield func(Property) bool) {
		rest := string(p)
		for rest != "" {
			var next Property
			next, rest = cut(rest)
			if !yield(next) {
				return
			}
		}
	}
}

// Lookup returns the property with the given name.
func (p Properties) Lookup(name string) (Property, bool) {
	for q := range p.All() {
		if q.Name == name {
			return q, true
		}
	}
	return Property{}, false
}

// cut splits off the first property.
func cut(s string) (first Property, rest string) {
	name, after := cutMember(s)
	end := len(s) - len(after)
	p := Property{Name: name, JSON: s[len(name)+3 : end]}
	if of, ok := strings.CutSuffix(name, typeSuffix); ok {
		p.Type, _ = odata.ParseType(strings.Trim(p.JSON, `"`))
		value := after[1:] // skips the comma
		_, after = cutMember(value)
		end = len(s) - len(after)
		p.Name = of
		p.JSON = value[len(of)+3 : len(value)-len(after)]
	} else {
		p.Type = odata.Implied(p.JSON)
	}
	p.Full = s[:end]
	return p, strings.TrimPrefix(after, ",")
}

// cutMember returns the name of the first member and the text after the member.
func cutMember(s string) (name, after string) {
	colon := strings.IndexByte(s, ':')
	name = s[1 : colon-1]
	value := s[colon+1:]
	if value[0] != '"' {
		if comma := strings.IndexByte(value, ','); comma >= 0 {
			return name, value[comma:]
		}
		return name, ""
	}
	for i := 1; ; i++ {
		switch value[i] {
		case '\\':
			i++
		case '"':
			return name, value[i+1:]
		}
	}
}

// Value returns the property's value.
func (p Property) Value() odata.Value { return odata.ValueOf(p.Type, p.text()) }

// text returns the value without JSON's quotes and escapes.
func (p Property) text() string {
	if p.JSON[0] != '"' {
		return p.JSON
	}
	if strings.IndexByte(p.JSON, '\\') < 0 {
		return p.JSON[1 : len(p.JSON)-1]
	}
	text, _ := jsontext.AppendUnquote(nil, p.JSON)
	return string(text)
}

// Merge returns the properties in p and `changes`, sorted by name. If both have a property of the same name, Merge returns the one in `changes`.
func (p Properties) Merge(changes Properties) Properties {
	var all []Property
	for q := range p.All() {
		if _, replaced := changes.Lookup(q.Name); !replaced {
			all = append(all, q)
		}
	}
	return joined(slices.AppendSeq(all, changes.All()))
}

// Sorted returns the properties sorted by name.
func (p Properties) Sorted() Properties {
	last := ""
	for q := range p.All() {
		if q.Name < last {
			return joined(slices.Collect(p.All()))
		}
		last = q.Name
	}
	return p
}

// joined returns the properties sorted by name.
func joined(all []Property) Properties {
	slices.SortFunc(all, func(a, b Property) int { return strings.Compare(a.Name, b.Name) })
	var b strings.Builder
	for i, q := range all {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(q.Full)
	}
	return Properties(b.String())
}

// Check applies the service's limits to a whole row. The error is a *refusal.Error.
func Check(k key.Key, p Properties) error {
	// A property and a comma take at least six bytes in p. By the service's rules, a property's size is at most three times
	// the number of bytes that it takes in p. So if p is short, the row is within the limits, and nothing needs to be counted.
	if 3*len(p) < maxEntityBytes/2 && len(p) < 6*maxProperties {
		return nil
	}
	count, size := 0, 4+2*(key.Units(k.Partition)+key.Units(k.Row))
	for q := range p.All() {
		count++
		size += 8 + 2*key.Units(q.Name) + q.size()
	}
	if count > maxProperties {
		return refusal.New("TooManyProperties", "The entity contains more properties than allowed. Each entity can include up to 252 properties to store data.")
	}
	if size > maxEntityBytes {
		return refusal.New("EntityTooLarge", "The entity is larger than the maximum allowed size (1MB).")
	}
	return nil
}

// size returns how many bytes the property's value adds to the entity's size (Microsoft, "Understanding Windows Azure Storage Billing").
func (p Property) size() int {
	switch p.Type {
	case odata.String:
		return 4 + 2*key.Units(p.text())
	case odata.Binary:
		return 4 + len(p.Value().Text)
	case odata.Boolean:
		return 1
	case odata.Int32:
		return 4
	case odata.Guid:
		return 16
	}
	return 8
}

// CheckKey applies the service's rules to a key. name is PartitionKey or RowKey. The error is a *refusal.Error.
func CheckKey(name, s string) error {
	for i, r := range s {
		switch {
		case r == '/', r == '\\', r == '#', r == '?', r <= 0x1F, r >= 0x7F && r <= 0x9F,
			r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD"): // not valid UTF-8
			return refusal.New("OutOfRangeInput", "The '"+name+"' parameter of value "+strconv.Quote(s)+" is out of range.")
		}
	}
	if len(s) > maxKeyUnits && key.Units(s) > maxKeyUnits {
		return refusal.New("KeyValueTooLarge", "The value of "+name+" is larger than the maximum allowed size (1KB).")
	}
	return nil
}
