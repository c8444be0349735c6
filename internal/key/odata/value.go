// Package odata implements the part of OData 3 that the Table service uses: the EDM types, their literals, and $filter
// expressions.
//
// A [Value] is one typed value. A [Filter] is a parsed $filter expression. [Filter.Match] applies it to a [Row], and
// [Filter.Range] returns a range of keys that contains all matching rows.
package odata

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"time"

	"tablesweep/internal/key"
)

// Type is an EDM primitive type that the Table service stores.
type Type uint8

// The types of the service's data model (Microsoft Learn, "Payload format for Table service operations"). Their numbers must not
// change, because the hashes of stored records depend on these numbers.
const (
	String Type = iota
	Boolean
	Int32
	Int64
	Double
	DateTime
	Guid
	Binary
)

// String returns the type's wire name, such as "Edm.Int64".
func (t Type) String() string {
	return [...]string{"Edm.String", "Edm.Boolean", "Edm.Int32", "Edm.Int64", "Edm.Double", "Edm.DateTime", "Edm.Guid", "Edm.Binary"}[t]
}

// ParseType returns the type with the given wire name.
func ParseType(name string) (Type, bool) {
	for t := String; t <= Binary; t++ {
		if t.String() == name {
			return t, true
		}
	}
	return 0, false
}

// Implied returns the type of a JSON value without an annotation. A number is a Double if it has a point or exponent, or if it
// does not fit into an Int32. Microsoft's OData reader has the same rule.
func Implied[T ~string | ~[]byte](json T) Type {
	switch {
	case len(json) == 0 || json[0] == '"' || json[0] == 'n' || json[0] == '{' || json[0] == '[':
		return String
	case json[0] == 't' || json[0] == 'f':
		return Boolean
	}
	text := string(json)
	if strings.ContainsAny(text, ".eE") { // avoids allocating an error
		return Double
	}
	if _, err := strconv.ParseInt(text, 10, 32); err != nil {
		return Double
	}
	return Int32
}

// Value is one typed value. The type determines the field that contains the value.
type Value struct {
	Type  Type
	Text  string  // a String's text, a Guid in lower case, or a Binary's bytes
	Int   int64   // Int32, Int64; DateTime as ticks; Boolean as 0 or 1
	Float float64 // Double
}

// compare compares two values of one type, or two numbers of any types. If a value is NaN, or if the types cannot be compared,
// ok is false.
func compare(a, b Value) (c int, ok bool) {
	switch {
	case a.isNumber() && b.isNumber():
		return compareNumbers(a, b)
	case a.Type != b.Type:
		return 0, false
	case a.Type == String:
		return key.Compare(a.Text, b.Text), true
	case a.Type == Guid || a.Type == Binary:
		return strings.Compare(a.Text, b.Text), true
	}
	return cmp.Compare(a.Int, b.Int), true
}

func (v Value) isNumber() bool { return v.Type == Int32 || v.Type == Int64 || v.Type == Double }

func compareNumbers(a, b Value) (c int, ok bool) {
	switch {
	case a.Type == Double && b.Type == Double:
		return cmp.Compare(a.Float, b.Float), a.Float == a.Float && b.Float == b.Float
	case a.Type == Double:
		c, ok = compareIntFloat(b.Int, a.Float)
		return -c, ok
	case b.Type == Double:
		return compareIntFloat(a.Int, b.Float)
	}
	return cmp.Compare(a.Int, b.Int), true
}

// compareIntFloat compares i and f exactly. It does not convert i to float64, because the conversion could round i.
func compareIntFloat(i int64, f float64) (c int, ok bool) {
	switch {
	case math.IsNaN(f):
		return 0, false
	case f >= 1<<63:
		return -1, true
	case f < -1<<63:
		return 1, true
	}
	whole, fraction := math.Modf(f)
	if c := cmp.Compare(i, int64(whole)); c != 0 {
		return c, true
	}
	return cmp.Compare(0, fraction), true
}

// ParseDateTime parses a DateTime in every form that the service accepts: ISO 8601 with an optional time, fraction and offset.
// Without an offset, the time is in UTC. ParseDateTime drops digits below a tick. The result is in ticks.
func ParseDateTime(s string) (ticks int64, ok bool) {
	for _, layout := range [...]string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04Z07:00", "2006-01-02T15:04", time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return key.Ticks(t), true
		}
	}
	return 0, false
}

// KeepsTime reports whether a DateTime can store the time in the text without rounding it. A DateTime stores at most seven
// digits of a fraction of a second.
func KeepsTime(text string) bool {
	_, fraction, found := strings.Cut(strings.Replace(text, ",", ".", 1), ".")
	if !found {
		return true
	}
	digits := fraction[:len(fraction)-len(strings.TrimLeft(fraction, "0123456789"))]
	return len(strings.TrimRight(digits, "0")) <= 7
}

// KeepsNumber reports whether a Double can store the number in the text. It rounds the nearest Double to as many digits as the
// text has, and reports whether the result equals the number in the text.
func KeepsNumber(text string) bool {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return false
	}
	given := significant(text)
	if given == "" {
		return f == 0
	}
	return significant(strconv.FormatFloat(f, 'e', len(given)-1, 64)) == strings.TrimRight(given, "0")
}

// significant returns a number's digits: it removes the sign, the point, the exponent, and the zeros at both ends.
func significant(number string) string {
	if e := strings.IndexAny(number, "eE"); e >= 0 {
		number = number[:e]
	}
	return strings.Trim(strings.Replace(strings.TrimLeft(number, "+-"), ".", "", 1), "0")
}

// AppendDateTime appends a DateTime in UTC to b, in the service's form. The seconds have only the decimal places that are
// needed, at most seven.
func AppendDateTime(b []byte, ticks int64) []byte {
	t := key.TickTime(ticks)
	// AppendDateTime is called for every row, and time.Time.AppendFormat would take several times as long.
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	b = appendTwo(appendTwo(b, year/100), year%100)
	b = appendTwo(append(b, '-'), int(month))
	b = appendTwo(append(b, '-'), day)
	b = appendTwo(append(b, 'T'), hour)
	b = appendTwo(append(b, ':'), minute)
	b = appendTwo(append(b, ':'), second)
	return append(appendFraction(b, ticks%ticksPerSecond), 'Z')
}

const ticksPerSecond = int64(time.Second / key.Tick)

func appendTwo(b []byte, n int) []byte { return append(b, byte('0'+n/10), byte('0'+n%10)) }

// appendFraction appends a point and the ticks within a second, without trailing zeros.
func appendFraction(b []byte, ticks int64) []byte {
	if ticks == 0 {
		return b
	}
	b = append(b, '.')
	for unit := ticksPerSecond / 10; ticks > 0; unit /= 10 {
		b = append(b, byte('0'+ticks/unit))
		ticks %= unit
	}
	return b
}
