// Package index computes the keys of a catalog's index rows.
//
// A catalog stores a record once under each of its identifiers, so one request finds the record by any identifier. A
// [Schema] names the index keys, which are the fields with the identifiers, and the field that sorts the records of one
// identifier. An [Identity] contains the keys of one record's index rows: a PartitionKey for each index key, and the RowKey
// of all rows. A query requests a [Window], a range of the rows in one partition.
//
// Other programs also write and read keys of this form:
//
//	PartitionKey = characters in the field's name + "_" + lower(field) + lower(value)
//	RowKey       = lower(sort value) + ":" + first 8 hex digits of
//	               MD5(lower(values), joined by "|" in alphabetical order of their fields)
//
// Values that are legal in keys have exactly this form. Other values are escaped; see [Schema.Identity]. The function `lower`
// is Go's strings.ToLower, which applies Unicode's rules to each character, independently of the language.
package index

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxKeys is the maximum number of index keys. The service allows at most 15 comparisons in a
// filter, so one filter can compare all index keys.
const maxKeys = 15

// maxField is the maximum number of characters of a field name. The service has the same limit for names of properties.
const maxField = 255

// Schema names the fields by which a catalog's records are found, and the field that sorts the records. [Parse] returns only
// valid schemas.
type Schema struct {
	Keys []Key // 1 to 15 different index keys; every record has a value for the first index key
	Sort Sort
}

// Key is an index key: a field by which records are found.
type Key struct {
	Field      string // the name as configured; its case is ignored
	Normaliser Normaliser
}

// String returns the key in the form that [Parse] accepts. String omits the normaliser Lower if the field's name has no colon.
func (k Key) String() string {
	if k.normaliser() == Lower && !strings.Contains(k.Field, ":") {
		return k.Field
	}
	return k.Field + ":" + string(k.normaliser())
}

// Normaliser determines which values count as equal. The empty Normaliser is Lower.
type Normaliser string

// The normalisers.
const (
	Lower  Normaliser = "lower"  // ignores case
	Digits Normaliser = "digits" // only the digits 0 to 9 count: 123-45-6789 is 123456789
	Exact  Normaliser = "exact"  // every character counts
)

// Sort is the field that sorts the records of one identifier.
type Sort struct {
	Field string // the name as configured; its case is ignored
	Order Order
}

// String returns the sort field in the form that [Parse] accepts. String omits the order Text if the field's name has no colon.
func (s Sort) String() string {
	if order := cmp.Or(s.Order, Text); order != Text || strings.Contains(s.Field, ":") {
		return s.Field + ":" + string(order)
	}
	return s.Field
}

// Order determines how values are sorted. The empty Order is Text.
type Order string

// The orders.
const (
	Text       Order = "text"   // by the text in lower case
	Newest     Order = "newest" // times, from the newest to the oldest
	Ascending  Order = "number" // numbers, from the least to the greatest
	Descending Order = "number:desc"
)

// Parse parses a schema from its two settings: index keys such as "eid,npi,ssn:digits", and a sort field such as "lastname" or
// "timestamp:newest". The text after the last colon must be a normaliser (lower, digits, exact) or, for the sort field, an
// [Order]. Any other text is an error, because it may be a misspelled normaliser. After a name that contains a colon, the
// normaliser or the order is required: "a:b:lower". The error lists all mistakes.
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

// String returns the schema as a line such as "eid:lower,ssn:digits;lastname:text", with field names in lower case, and a
// normaliser for every index key. Two schemas are equivalent if and only if their lines are equal.
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

// Rank returns an index key's position among the keys, or -1 if the field is not an index key. It ignores the case of the
// field's name.
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

func (s Schema) checkKeys() error {
	var errs []error
	if len(s.Keys) > maxKeys {
		errs = append(errs, fmt.Errorf("there are %d index keys, but at most %d are allowed", len(s.Keys), maxKeys))
	}
	for i, k := range s.Keys {
		switch strings.ToLower(k.Field) {
		case "":
			continue
		case "top", "cursor", "row_from", "row_to", "row_prefix", "select":
			errs = append(errs, fmt.Errorf("index key %q cannot be used in queries, because another parameter of a query has this name; rename the field", k.Field))
		case "code":
			errs = append(errs, fmt.Errorf("index key %q cannot be used in queries, because callers send the function key in a parameter of this name; rename the field", k.Field))
		}
		if s.Rank(k.Field) < i {
			errs = append(errs, fmt.Errorf("index key %q is named twice (case is ignored)", k.Field))
		}
	}
	return errors.Join(errs...)
}

func (k Key) normaliser() Normaliser { return cmp.Or(k.Normaliser, Lower) }

// cutEnd splits an item of a setting, FIELD:END, into a field name and an end. The end must be in the slice `ends`. For an item
// without a colon, cutEnd returns ends[0] as the end.
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
			err = fmt.Errorf("unknown ending %q; use one of %s. If the colon is part of the field's name, write %q",
				end, strings.Join(ends, ", "), field+":"+end+":"+ends[0])
		}
	}
	return checkName(field, end, err)
}

// checkName checks a field's name. If the name is not valid, checkName joins an error to err.
func checkName(field, end string, err error) (string, string, error) {
	switch n := utf8.RuneCountInString(field); {
	case field == "":
		return "", end, errors.Join(err, errors.New("the field's name is missing"))
	case n > maxField:
		err = errors.Join(err, fmt.Errorf("the name has %d characters, but at most %d are allowed", n, maxField))
	case !utf8.ValidString(field):
		err = errors.Join(err, errors.New("the name is not valid UTF-8"))
	case strings.ContainsAny(field, ",;"):
		err = errors.Join(err, errors.New("the settings cannot contain a name with ',' or ';'; rename the field"))
	}
	return field, end, err
}

func inSetting(setting, item string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %q: %w", setting, item, err)
}
