// Package input reads what callers send, JSON and query strings, by one strict
// rule: names are spelt exactly, known, and given once. Another spelling must not
// pass for "not given", or for the field itself: it may be what narrows a deletion.
//
// What the app has written itself, and what the Functions host and the storage
// services send, is read where it is used.
package input

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tablesweep/internal/problem"
)

// JSON decodes one JSON value into what v points to. It refuses names that differ
// in case from v's fields, unknown names, names given twice, invalid UTF-8, and
// anything behind the value. Its errors are [problem.Invalid] and name the field.
func JSON(text []byte, v any) error { return decode(text, v, json.RejectUnknownMembers(true)) }

// Part is JSON for an object of which v has but some of the fields: it ignores
// unknown names.
func Part(text []byte, v any) error { return decode(text, v) }

func decode(text []byte, v any, o ...json.Options) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(text))
	if err := json.UnmarshalDecode(d, v, o...); err != nil {
		return explain(err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return problem.Invalidf("", "goes on after its JSON value; send just one")
	}
	return nil
}

// explain makes an error of package json one that says what to change.
func explain(err error) error {
	var syntax *jsontext.SyntacticError
	var semantic *json.SemanticError
	switch {
	case errors.As(err, &syntax) && errors.Is(err, jsontext.ErrDuplicateName):
		return problem.Invalidf(field(syntax.JSONPointer), "is given twice; give it once")
	case errors.As(err, &semantic) && errors.Is(err, json.ErrUnknownName):
		return problem.Invalidf(field(semantic.JSONPointer), "is not a field here; check its spelling, upper and lower case, and its place")
	case errors.As(err, &semantic) && semantic.GoType != nil:
		return problem.Invalidf(field(semantic.JSONPointer), "must be %s", kind(semantic.GoType))
	case errors.Is(err, io.EOF):
		return problem.Invalidf("", "is empty; send JSON")
	}
	return problem.Invalidf("", "is not valid JSON").Because(err)
}

// field returns a pointer such as /a/0/b as a.0.b.
func field(p jsontext.Pointer) string {
	return strings.Join(slices.Collect(p.Tokens()), ".")
}

// kind returns what JSON calls the values of a type.
func kind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return kind(t.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a JSON string"
	case reflect.Slice, reflect.Array:
		return "a JSON array"
	case reflect.Struct, reflect.Map:
		return "a JSON object"
	case reflect.Float32, reflect.Float64:
		return "a JSON number"
	}
	return "a whole number"
}

// Parameter is a query parameter that a call takes.
type Parameter struct {
	Name    string
	AnyCase bool // Name stands for all spellings that differ in case only
	Many    bool // it may be given several times
	Empty   bool // it may be empty, which is as if it were left out
}

// Once returns parameters that are spelt exactly and given once. The one called cursor may be
// empty, as answers and programs have it for the first page.
func Once(names ...string) []Parameter {
	all := make([]Parameter, len(names))
	for i, name := range names {
		all[i] = Parameter{Name: name, Empty: name == "cursor"}
	}
	return all
}

// hosts are the parameters of the Functions host, which passes them on: the
// function's key, and the key's name.
var hosts = []string{"code", "clientId"}

// Query reads a URL's query string. It refuses parameters that the call does not
// take, those given too often and those without a value. The host's own are left out unless
// the call takes one of that name. The result's names are those of takes. Its errors are
// [problem.Invalid] and name the parameter.
func Query(raw string, takes []Parameter) (url.Values, error) {
	given, err := url.ParseQuery(raw)
	if err != nil {
		return nil, problem.Invalidf("", "the query string can't be read; escape & as %%26, ; as %%3B, + as %%2B and %% as %%25").Because(err)
	}
	read := url.Values{}
	for name, values := range given {
		i := slices.IndexFunc(takes, func(p Parameter) bool {
			return p.Name == name || p.AnyCase && strings.EqualFold(p.Name, name)
		})
		switch {
		case i >= 0:
			read[takes[i].Name] = append(read[takes[i].Name], values...)
		case !slices.Contains(hosts, name):
			return nil, problem.Invalidf(name, "is not a parameter of this call; %s", listed(takes))
		}
	}
	for _, p := range takes {
		if n := len(read[p.Name]); n > 1 && !p.Many {
			return nil, problem.Invalidf(p.Name, "is given %d times; give it once", n)
		}
		if !p.Empty && slices.Contains(read[p.Name], "") {
			return nil, problem.Invalidf(p.Name, "is empty; give it a value or leave it out")
		}
	}
	return read, nil
}

// Top checks how many items a caller wants at most, its parameter top.
func Top(n, most int) error {
	if n < 1 || n > most {
		return problem.Invalidf("top", "must be a number from 1 to %d", most)
	}
	return nil
}

func listed(takes []Parameter) string {
	if len(takes) == 0 {
		return "it takes none"
	}
	names := make([]string, len(takes))
	for i, p := range takes {
		names[i] = p.Name
	}
	return fmt.Sprintf("it takes %s", strings.Join(names, ", "))
}
