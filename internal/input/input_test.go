package input_test

import (
	"errors"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"tablesweep/internal/input"
	"tablesweep/internal/problem"
)

type request struct {
	Action string   `json:"action"`
	Size   int      `json:"size"`
	Part   *part    `json:"part"`
	Names  []string `json:"names"`
	Dry    bool     `json:"dry"`
}

type part struct {
	Key string `json:"key"`
}

func TestJSON(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, field, detail string }{
		{"a correct value", `{"action":"count","size":3,"part":{"key":"k"},"names":["a"],"dry":true}`, "", ""},
		{"white space around it", " \n{}\n", "", ""},
		{"null is not given", `{"part":null,"size":null}`, "", ""},
		{"another case", `{"Action":"delete"}`, "Action", "check the field's spelling, case"},
		{"the same name in another case", `{"action":"count","Action":"delete"}`, "Action", "is not a field"},
		{"another case within", `{"part":{"Key":"k"}}`, "part.Key", "is not a field"},
		{"unknown", `{"part":{"colour":1}}`, "part.colour", "is not a field"},
		{"given twice", `{"action":"count","action":"delete"}`, "action", "given twice"},
		{"given twice, escaped", `{"action":"count","\u0061ction":"delete"}`, "action", "given twice"},
		{"given twice within", `{"part":{"key":"a","key":"b"}}`, "part.key", "given twice"},
		{"a number for a text", `{"action":1}`, "action", "must be a JSON string"},
		{"a text for a number", `{"size":"1"}`, "size", "must be a whole number"},
		{"half a number", `{"size":1.5}`, "size", "must be a whole number"},
		{"a number too large", `{"size":123456789012345678901}`, "size", "must be a whole number"},
		{"a text for an object", `{"part":"k"}`, "part", "must be a JSON object"},
		{"a text for an array", `{"names":"a"}`, "names", "must be a JSON array"},
		{"within an array", `{"names":["a",1]}`, "names.1", "must be a JSON string"},
		{"a text for a boolean", `{"dry":"no"}`, "dry", "must be true or false"},
		{"an array for the whole object", `[]`, "", "must be a JSON object"},
		{"empty", "", "", "is empty"},
		{"white space alone", "  ", "", "is empty"},
		{"cut off", `{"action":`, "", "not valid JSON"},
		{"two values", `{}{}`, "", "has text after"},
		{"not UTF-8", "{\"action\":\"\xff\"}", "", "not valid JSON"},
		{"single quotes", `{'action':'count'}`, "", "not valid JSON"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var r request
			check(t, input.JSON([]byte(tt.text), &r), tt.field, tt.detail)
		})
	}
}

// The error for invalid JSON contains the column of the mistake, and the line if there are several.
func TestErrorsNameThePosition(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"action":`:                 "is not valid JSON: column 11: unexpected EOF",
		"{x}\n":                      "is not valid JSON: column 2: invalid character 'x' ",
		"{\n \"action\": \"é\", x }": "is not valid JSON: line 2, column 17: invalid character 'x' ",
		"{\n":                        "is not valid JSON: line 2, column 1: unexpected EOF",
	} {
		var r request
		if err := input.JSON([]byte(text), &r); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

func TestPart(t *testing.T) {
	t.Parallel()
	var p part
	if err := input.Part([]byte(`{"Key":"other","key":"k","more":1}`), &p); err != nil || p.Key != "k" {
		t.Errorf("got %+v, error %v", p, err)
	}
	check(t, input.Part([]byte(`{"key":"k","key":"k"}`), &p), "key", "given twice")
}

func TestTop(t *testing.T) {
	t.Parallel()
	for n, detail := range map[int]string{-1: "1 to 10", 0: "1 to 10", 1: "", 10: "", 11: "1 to 10"} {
		field := ""
		if detail != "" {
			field = "top"
		}
		check(t, input.Top(n, 10), field, detail)
	}
}

func TestQuery(t *testing.T) {
	t.Parallel()
	takes := append(input.Once("top", "cursor"), input.Parameter{Name: "eid"}, input.Parameter{Name: "Email", Many: true})
	for _, tt := range []struct {
		name, raw     string
		want          url.Values
		field, detail string
	}{
		{"none", "", url.Values{}, "", ""},
		{"some", "top=3&eid=a%26b&Email=x&Email=y", url.Values{"top": {"3"}, "eid": {"a&b"}, "Email": {"x", "y"}}, "", ""},
		{"the host's own", "code=secret&clientId=default&top=1", url.Values{"top": {"1"}}, "", ""},
		{"an empty cursor", "cursor=", url.Values{"cursor": {""}}, "", ""},
		{"empty", "top=", nil, "top", "is empty"},
		{"without =", "eid", nil, "eid", "is empty"},
		{"one of several empty", "Email=x&Email=", nil, "Email", "is empty"},
		{"the host's own, empty", "code=", url.Values{}, "", ""},
		{"unknown", "topp=3", nil, "topp", "it takes top, cursor, eid, Email"},
		{"another case", "Top=3", nil, "Top", "is not a parameter"},
		{"without a name", "=3", nil, "", "is not a parameter"},
		{"twice", "top=3&top=4", nil, "top", "2 times"},
		{"twice the same", "top=3&top=3", nil, "top", "2 times"},
		{"in two cases", "eid=a&EID=b", nil, "EID", "is not a parameter"},
		{"a byte that is not UTF-8", "eid=%FF", nil, "eid", "not valid UTF-8"},
		{"half a character", "code=%E2%82", nil, "code", "not valid UTF-8"},
		{"a semicolon", "top=3;cursor=x", nil, "", "cannot be read"},
		{"half an escape", "top=%2", nil, "", "cannot be read"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := input.Query(tt.raw, takes)
			check(t, err, tt.field, tt.detail)
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
	_, err := input.Query("top=1&code=x", nil)
	check(t, err, "top", "it takes none")
	if got, err := input.Query("code=x", input.Once("code")); err != nil || got.Get("code") != "x" {
		t.Errorf("a parameter with the name of a host's parameter: got %v, error %v", got, err)
	}
}

// check compares an error with the expected field and detail. An empty detail means that no error is expected.
func check(t *testing.T, err error, field, detail string) {
	t.Helper()
	if detail == "" {
		if err != nil {
			t.Errorf("error %v", err)
		}
		return
	}
	var p *problem.Error
	if !errors.As(err, &p) || p.Kind != problem.Invalid || p.Field != field || !strings.Contains(p.Detail, detail) {
		t.Errorf("got error %v, want one about the field %q with the detail %q", err, field, detail)
	}
}
