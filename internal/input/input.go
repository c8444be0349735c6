// Package input reads the JSON and query strings that callers send, by one strict rule: every name must be known,
// spelled exactly, and given once. If a misspelled parameter were ignored, a deletion could delete too many rows.
// There are exceptions: [Part] ignores unknown names, and a [Parameter] may be given several times if its field
// Many is set.
//
// Other packages read the app's own data, and data of the Functions host and the storage services.
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
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"tablesweep/internal/problem"
)

// JSON decodes one JSON value into v. It refuses unknown names, repeated names, invalid UTF-8, and any text after the
// value. A name whose letters have the wrong case counts as unknown. All errors are [problem.Invalid]. An error about a
// field names the field.
func JSON(text []byte, v any) error { return decode(text, v, json.RejectUnknownMembers(true)) }

// Part decodes an object that may have more fields than v. Unlike [JSON], it ignores unknown names.
func Part(text []byte, v any) error { return decode(text, v) }

func decode(text []byte, v any, o ...json.Options) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(text))
	if err := json.UnmarshalDecode(d, v, o...); err != nil {
		return explain(text, err)
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return problem.Invalidf("", "has text after its JSON value; send only one value")
	}
	return nil
}

// explain turns an error of package json into an error that explains what to change.
func explain(text []byte, err error) error {
	var syntax *jsontext.SyntacticError
	var semantic *json.SemanticError
	switch {
	case errors.As(err, &syntax) && errors.Is(err, jsontext.ErrDuplicateName):
		return problem.Invalidf(field(syntax.JSONPointer), "is given twice; give it once")
	case errors.As(err, &semantic) && errors.Is(err, json.ErrUnknownName):
		return problem.Invalidf(field(semantic.JSONPointer), "is not a field at this position; check the field's spelling, case and position")
	case errors.As(err, &semantic) && semantic.GoType != nil:
		return problem.Invalidf(field(semantic.JSONPointer), "must be %s", kind(semantic.GoType))
	case errors.Is(err, io.EOF):
		return problem.Invalidf("", "is empty; send JSON")
	}
	return problem.Invalidf("", "is not valid JSON").Because(Located(text, err))
}

// Located adds the position of the mistake to err if the text is not valid JSON. The position is the column in
// characters and, if the text has several lines, the line. Other errors stay unchanged.
func Located(text []byte, err error) error {
	var syntax *jsontext.SyntacticError
	if !errors.As(err, &syntax) || syntax.Err == nil {
		return err
	}
	before := text[:min(int(syntax.ByteOffset), len(text))]
	begin := bytes.LastIndexByte(before, '\n') + 1
	at := fmt.Sprintf("column %d", utf8.RuneCount(before[begin:])+1)
	if begin > 0 || bytes.Contains(bytes.TrimSpace(text), []byte("\n")) {
		at = fmt.Sprintf("line %d, %s", bytes.Count(before, []byte("\n"))+1, at)
	}
	return fmt.Errorf("%s: %w", at, syntax.Err)
}

// field converts a JSON pointer to the name of a field: /a/0/b becomes a.0.b.
func field(p jsontext.Pointer) string {
	return strings.Join(slices.Collect(p.Tokens()), ".")
}

// kind returns JSON's name for the values of a type.
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

// Parameter is a query parameter of a call.
type Parameter struct {
	Name  string
	Many  bool // the parameter may be given several times
	Empty bool // the parameter may be empty; an empty parameter means the same as an absent one
}

// Once returns parameters that may be given at most once. Only "cursor" may be empty: an empty cursor requests the first
// page.
func Once(names ...string) []Parameter {
	all := make([]Parameter, len(names))
	for i, name := range names {
		all[i] = Parameter{Name: name, Empty: name == "cursor"}
	}
	return all
}

// hostParameters are a function's key and the key's name. The Functions host uses both parameters, and passes them on to the app.
var hostParameters = []string{"code", "clientId"}

// Query reads a URL's query string. It refuses invalid UTF-8, and parameters that are not in params. It refuses a
// repeated or empty parameter unless its [Parameter] allows this. It ignores the host's own parameters, unless params
// contains their names. All errors are [problem.Invalid]. An error about a parameter names the parameter.
func Query(raw string, params []Parameter) (url.Values, error) {
	given, err := url.ParseQuery(raw)
	if err != nil {
		return nil, problem.Invalidf("", "the query string cannot be read; escape \"&\" as %%26, \";\" as %%3B, \"+\" as %%2B and \"%%\" as %%25").Because(err)
	}
	read := url.Values{}
	for name, values := range given {
		switch {
		case slices.ContainsFunc(params, func(p Parameter) bool { return p.Name == name }):
			read[name] = values
		case !slices.Contains(hostParameters, name):
			return nil, problem.Invalidf(name, "is not a parameter of this call; %s", listed(params))
		}
		if slices.ContainsFunc(values, func(v string) bool { return !utf8.ValidString(v) }) {
			return nil, problem.Invalidf(name, "is not valid UTF-8; encode the text in UTF-8 with %%-escapes, such as %%C3%%BC for ü")
		}
	}
	for _, p := range params {
		if n := len(read[p.Name]); n > 1 && !p.Many {
			return nil, problem.Invalidf(p.Name, "is given %d times; give it once", n)
		}
		if !p.Empty && slices.Contains(read[p.Name], "") {
			return nil, problem.Invalidf(p.Name, "is empty; give it a value or leave it out")
		}
	}
	return read, nil
}

// Top checks that the parameter `top`, the maximum number of items in the answer, is from 1 to the given limit.
func Top(n, limit int) error {
	if n < 1 || n > limit {
		return problem.Invalidf("top", "must be a number from 1 to %d", limit)
	}
	return nil
}

func listed(params []Parameter) string {
	if len(params) == 0 {
		return "it takes none"
	}
	names := make([]string, len(params))
	for i, p := range params {
		names[i] = p.Name
	}
	return fmt.Sprintf("it takes %s", strings.Join(names, ", "))
}
