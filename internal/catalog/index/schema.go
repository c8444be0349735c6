// Package index computes where a catalog's records stand in its table.
//
// A catalog holds each record once under each of its identifiers, so that
// whoever knows one of them finds it with one request. A [Schema] names the
// identifiers (the index keys) and the field that sorts the records of one
// identifier. An [Identity] is what the schema makes of one record: a
// PartitionKey for each index key, and the RowKey that all its rows share. A
// [Window] says which of a partition's rows a query wants.
//
// The keys have a published form, which other programs write and read:
//
//	PartitionKey = characters in the field's name + "_" + lower(field) + lower(value)
//	RowKey       = lower(sort value) + ":" + first 8 hex digits of
//	               MD5(lower(values), joined by "|" in alphabetical order of their fields)
//
// Values that are legal in keys are written in exactly this form. The others are
// escaped; see [Schema.Identity]. Lower case is Go's strings.ToLower: Unicode's,
// character by character, whatever the language.
//
// The package does no I/O and knows neither what else a row holds nor how rows
// are written, versioned or repaired.
package index

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"tablesweep/internal/problem"
)

// maxKeys is the largest number of index keys: a query by all of them is one
// filter, and the service takes 15 comparisons in one.
const maxKeys = 15

// maxField is the length of the longest field name, in characters; it is the
// service's limit for property names.
const maxField = 255

// Schema says by what a catalog's records are found and how they are sorted.
// [Parse] makes valid ones.
type Schema struct {
	Keys []Key // the first is in every record; at most MaxKeys, no field twice
	Sort Sort
}

// Key is a field by which records are found.
type Key struct {
	Field      string // as configured; compared without regard to case
	Normaliser Normaliser
}

// String returns the key as [Parse] reads it: with its normaliser where that is not Lower,
// or the name holds a colon.
func (k Key) String() string {
	if k.normaliser() == Lower && !strings.Contains(k.Field, ":") {
		return k.Field
	}
	return k.Field + ":" + string(k.normaliser())
}

// Normaliser says what text makes of two values one. The empty one is Lower.
type Normaliser string

// The normalisers.
const (
	Lower  Normaliser = "lower"  // whatever the case
	Digits Normaliser = "digits" // the digits 0 to 9 alone: 123-45-6789 is 123456789
	Exact  Normaliser = "exact"  // character by character
)

// Sort is the field by which the records of one identifier are sorted.
type Sort struct {
	Field string // as configured; compared without regard to case
	Order Order
}

// String returns the sort field as [Parse] reads it: with its order where that is not Text,
// or the name holds a colon.
func (s Sort) String() string {
	if order := cmp.Or(s.Order, Text); order != Text || strings.Contains(s.Field, ":") {
		return s.Field + ":" + string(order)
	}
	return s.Field
}

// Order says how values are sorted. The empty one is Text.
type Order string

// The orders.
const (
	Text       Order = "text"   // by the text in lower case
	Newest     Order = "newest" // times, from the newest to the oldest
	Ascending  Order = "number" // numbers, from the least to the greatest
	Descending Order = "number:desc"
)

// Parse reads a schema from its two settings: index keys such as
// "eid,npi,ssn:digits", and a sort field such as "lastname" or
// "timestamp:newest". What stands behind a last colon is always a normaliser
// (lower, digits, exact), or an [Order] for the sort field, so that a
// misspelt one is not taken for a part of the name; a name that holds a colon
// itself is written with its normaliser, "a:b:lower". The error tells all that
// is wrong.
func Parse(indexKeys, rowKey string) (Schema, error) {
	var s Schema
	var errs []error
	for item := range strings.SplitSeq(indexKeys, ",") {
		field, end, err := cutEnd(item, string(Lower), string(Digits), string(Exact))
		errs = append(errs, inSetting("index key", item, err))
		s.Keys = append(s.Keys, Key{Field: field, Normaliser: Normaliser(end)})
	}
	field, end, err := cutEnd(rowKey, string(Text), string(Newest), string(Ascending), string(Descending))
	errs = append(errs, inSetting("row key", rowKey, err))
	s.Sort = Sort{Field: field, Order: Order(end)}
	errs = append(errs, s.checkKeys())
	if err := errors.Join(errs...); err != nil {
		return Schema{}, err
	}
	return s, nil
}

// ParseString reads a schema from the text that [Schema.String] wrote.
func ParseString(text string) (Schema, error) {
	keys, sort, _ := strings.Cut(text, ";")
	s, err := Parse(keys, sort)
	if err != nil {
		return Schema{}, fmt.Errorf("schema %q: %w", text, err)
	}
	if s.String() != text {
		return Schema{}, fmt.Errorf("schema %q is not written as %q", text, s.String())
	}
	return s, nil
}

// String returns the schema as a line such as "eid:lower,ssn:digits;lastname:text".
// Two schemas mean the same if and only if their lines are equal: fields are in
// lower case, normalisers are always named.
func (s Schema) String() string {
	var b strings.Builder
	for i, k := range s.Keys {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strings.ToLower(k.Field) + ":" + string(k.normaliser()))
	}
	b.WriteString(";" + strings.ToLower(s.Sort.Field) + ":" + string(cmp.Or(s.Sort.Order, Text)))
	return b.String()
}

// Rank returns an index key's place among the keys, -1 for a field that is none. Case
// doesn't matter.
func (s Schema) Rank(field string) int {
	name := strings.ToLower(field)
	return slices.IndexFunc(s.Keys, func(k Key) bool { return strings.ToLower(k.Field) == name })
}

// Fields returns the names of the index keys, for messages.
func (s Schema) Fields() string {
	names := make([]string, len(s.Keys))
	for i, k := range s.Keys {
		names[i] = k.Field
	}
	return strings.Join(names, ", ")
}

// unknown is the error for a field that is no index key.
func (s Schema) unknown(field string) error {
	return problem.Invalidf(field, "is not an index key; there are %s", s.Fields())
}

// checkKeys checks what concerns more than one setting's form.
func (s Schema) checkKeys() error {
	var errs []error
	if len(s.Keys) > maxKeys {
		errs = append(errs, fmt.Errorf("%d index keys are too many; at most %d are possible", len(s.Keys), maxKeys))
	}
	for i, k := range s.Keys {
		switch strings.ToLower(k.Field) {
		case "":
			continue // told already
		case "top", "cursor", "row_from", "row_to", "row_prefix":
			errs = append(errs, fmt.Errorf("index key %q: queries have a parameter of that name; rename the field", k.Field))
		}
		if s.Rank(k.Field) < i {
			errs = append(errs, fmt.Errorf("index key %q is named twice; case makes no difference", k.Field))
		}
	}
	return errors.Join(errs...)
}

func (k Key) normaliser() Normaliser { return cmp.Or(k.Normaliser, Lower) }

// cutEnd cuts a setting's item into a field name and what stands behind the last
// colon, which must be one of ends; without a colon it is the first of them. An end that
// holds a colon itself is found before one that it ends with.
func cutEnd(item string, ends ...string) (field, end string, err error) {
	field, end = strings.TrimSpace(item), ends[0]
	for _, e := range ends {
		if before, ok := strings.CutSuffix(field, ":"+e); ok && strings.Contains(e, ":") {
			return checkName(strings.TrimSpace(before), e, nil)
		}
	}
	if i := strings.LastIndexByte(field, ':'); i >= 0 {
		field, end = strings.TrimSpace(field[:i]), strings.TrimSpace(field[i+1:])
		if !slices.Contains(ends, end) {
			err = fmt.Errorf("unknown ending %q; there are %s (a name with a colon needs one: %q)",
				end, strings.Join(ends, ", "), field+":"+end+":"+ends[0])
		}
	}
	return checkName(field, end, err)
}

// checkName adds to err what is wrong with a field's name.
func checkName(field, end string, err error) (string, string, error) {
	switch n := utf8.RuneCountInString(field); {
	case field == "":
		return "", end, errors.Join(err, errors.New("the field's name is missing"))
	case n > maxField:
		err = errors.Join(err, fmt.Errorf("the name has %d characters; at most %d are possible", n, maxField))
	case !utf8.ValidString(field):
		err = errors.Join(err, errors.New("the name is not valid UTF-8"))
	case strings.ContainsAny(field, ",;"):
		err = errors.Join(err, errors.New("a name with ',' or ';' can't be configured"))
	}
	return field, end, err
}

// inSetting adds to err, if any, which item of which setting it is about.
func inSetting(setting, item string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %q: %w", setting, item, err)
}
