package envelope_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/app/envelope"
)

func TestParseAnswer(t *testing.T) {
	t.Parallel()
	const kind = "application/json"
	tests := []struct {
		name   string
		status int
		kind   string
		body   string
		err    string // a part of the error; "none" for ErrNoAnswer
	}{
		{"empty object", 200, kind, `{}`, ""},
		{"with charset", 200, "application/json; charset=utf-8", `{}`, ""},
		{"another success", 202, kind, `{}`, ""},
		{"failure", 500, kind, `{"detail":"no"}`, `answered 500 Internal Server Error: {"detail":"no"}`},
		{"redirect", 302, kind, `{}`, "answered 302"},
		// The case InvalidMediaType_Throws of azure-functions-host.
		{"text", 200, "text/plain; charset=utf-8", `{}`, "Content-Type"},
		{"no type", 200, "", `{}`, "Content-Type"},
		{"no JSON", 200, kind, `{`, "not the JSON object"},
		{"another shape", 200, kind, `{"Logs":"x"}`, "not the JSON object"},
		{"a string", 200, kind, `"x"`, "not the JSON object"},
		{"null", 200, kind, `null`, "none"},
		{"empty", 200, kind, ``, "none"},
		{"no content", 204, "", ``, "none"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := envelope.ParseAnswer(test.status, test.kind, []byte(test.body))
			switch {
			case test.err == "" && err != nil, test.err != "" && err == nil:
				t.Errorf("error %v, want %q", err, test.err)
			case (test.err == "none") != errors.Is(err, envelope.ErrNoAnswer):
				t.Errorf("error %v, want ErrNoAnswer: %v", err, test.err == "none")
			case err != nil && test.err != "none" && !strings.Contains(err.Error(), test.err):
				t.Errorf("error %v, want %q", err, test.err)
			}
		})
	}
}

func TestParseAnswerLogs(t *testing.T) {
	t.Parallel()
	a, err := envelope.ParseAnswer(200, "application/json", []byte(`{"logs":["one","two"],"Outputs":{},"ReturnValue":null}`))
	if diff := cmp.Diff([]string{"one", "two"}, a.Logs); err != nil || diff != "" {
		t.Errorf("error %v, logs (-want +got):\n%s", err, diff)
	}
}
