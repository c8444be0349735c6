package storage

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"tablesweep/internal/key"
	"tablesweep/internal/key/odata"
)

// propertyName matches legal names of properties. (Microsoft Learn, "Understanding the Table service data model")
var propertyName = regexp.MustCompile(`^[\p{L}_][\p{L}\p{Mn}\p{Nd}_]*$`)

// IsPropertyName reports whether a name is legal for a property, a key or the Timestamp.
func IsPropertyName(name string) bool { return propertyName.MatchString(name) }

// MinDateTime is the earliest DateTime, 1601-01-01, in ticks.
const MinDateTime = 504_911_232_000_000_000

// ParseProperty makes a property of the given type from a text. The text need not be exactly the text that
// [Property.Text] returns: for example, TRUE also means true. If the text is not a value of the type, the error
// describes the required form.
func ParseProperty(name string, t Type, text string) (Property, error) {
	p := Property{Name: name, Type: t}
	err := fmt.Errorf("must be an %v", t)
	switch t {
	case Boolean:
		if low := strings.ToLower(text); low == "true" || low == "false" {
			p.Value, err = jsontext.Value(low), nil
		}
	case Int32:
		if n, bad := strconv.ParseInt(text, 10, 32); bad == nil {
			p.Value, err = strconv.AppendInt(nil, n, 10), nil
		}
	case Int64:
		if n, bad := strconv.ParseInt(text, 10, 64); bad == nil {
			p.Value, err = Int64Property("", n).Value, nil
		}
	case Double:
		switch f, bad := strconv.ParseFloat(text, 64); {
		case text == "NaN" || text == "Infinity" || text == "-Infinity":
			p.Value, err = quote(text), nil
		case bad != nil || math.IsInf(f, 0) || jsontext.Value(text).Kind() != '0' || !jsontext.Value(text).IsValid():
		case !odata.KeepsNumber(text):
			err = errTooManyDigits
		default:
			p.Value, err = jsontext.Value(strings.TrimSpace(text)), nil
		}
	case DateTime:
		switch at, ok := odata.ParseDateTime(text); {
		case !ok || at < MinDateTime || at > key.MaxTicks:
		case !odata.KeepsTime(text):
			err = errFinerThanTick
		default:
			p.Value, err = quote(text), nil
			if !strings.HasSuffix(text, "Z") { // converts the time to UTC, because a table returns every time in UTC
				p.Value = quote(string(odata.AppendDateTime(nil, at)))
			}
		}
	case GUID:
		if _, ok := odata.ParseGuid(text); ok {
			p.Value, err = quote(text), nil
		}
	case Binary:
		if _, ok := odata.ParseBinary(text); ok {
			p.Value, err = quote(text), nil
		}
	default:
		p.Value, err = quote(text), nil
	}
	if !utf8.ValidString(text) {
		err = errors.New("is not valid Unicode")
	}
	return p, err
}

var (
	errTooManyDigits = errors.New("must be a number that an Edm.Double stores exactly (an Edm.String can store any number)")
	errFinerThanTick = errors.New("must have at most 7 decimal places in its seconds; only an Edm.String can store more")
)

// Inexact is the error of a row with a value that a table would change.
type Inexact struct {
	Name string // the property's name
	Err  error  // the rule that the value breaks
}

func (e *Inexact) Error() string { return e.Name + " " + e.Err.Error() }

func (e *Inexact) Unwrap() error { return e.Err }

// exact changes the text of a number beyond Int32, so that the number is stored as Int64. It refuses values that a
// table would silently change. The table itself refuses values that are not legal for their types.
func (p *Property) exact() error {
	number := p.Value.Kind() == '0'
	switch {
	case p.Type == Int64 && number:
		n, err := strconv.ParseInt(string(p.Value), 10, 64)
		if err != nil {
			return errors.New("must be a whole number of 64 bits, or an Edm.String")
		}
		p.Value = Int64Property("", n).Value
	case p.Type == Double && (number || jsontext.Value(p.Text()).Kind() == '0') && !odata.KeepsNumber(p.Text()):
		return errTooManyDigits
	case p.Type == DateTime && !odata.KeepsTime(p.Text()):
		return errFinerThanTick
	}
	return nil
}

// Lossy returns the property's text. If the value contains lone surrogates, which are illegal in UTF-8, U+FFFD
// replaces them, and `whole` is false.
func (p Property) Lossy() (text string, whole bool) {
	if text = p.Text(); text != "" || len(p.Value) <= 2 {
		return text, true
	}
	b, _ := jsontext.AppendUnquote(nil, p.Value)
	return string(b), false
}
