package jobrecord_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/proof"
	"tablesweep/internal/sweep/jobrecord"
)

func given(name, value string) jobrecord.Flag {
	return jobrecord.Flag{Name: name, Value: value, Given: true}
}

// stored is a record of the present form.
const stored = `{"version":1,"command":"copy","flags":{"failed":"f.jsonl","from":"a","rows":"list"},"again":["to-connection"],"places":["http://x/a","http://x/b"],"rows":"digest"}`

// A command's record has this form. A difference means that other versions can't read it: the version
// must change, too.
func TestStoredFormat(t *testing.T) {
	t.Parallel()
	secret := given("to-connection", "AccountKey=c2VjcmV0")
	secret.Again = true
	r := jobrecord.New("copy", []jobrecord.Flag{
		given("from", "a"), given("rows", "list"), given("failed", "f.jsonl"), secret, given("workers", "3"), {Name: "mode", Value: "replace", Default: "replace"},
	}, []string{"http://x/a", "http://x/b"}, "digest")
	if diff := cmp.Diff(stored, string(r.JSON())); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	back, err := jobrecord.Parse(r.JSON(), "copy")
	if diff := cmp.Diff(r, back); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		strings.Replace(stored, `"version":1`, `"version":2`, 1): "another version",
		strings.Replace(stored, "copy", "verify", 1):             `the command "verify"`,
		`{}`: `the command ""`,
		`[]`: `the command ""`,
	} {
		if _, err := jobrecord.Parse([]byte(text), "copy"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

// A resumed command takes over what is not given again, and refuses what has changed and what a file must not choose.
func TestRestore(t *testing.T) {
	t.Parallel()
	r, err := jobrecord.Parse([]byte(stored), "copy")
	proof.Must(t, err)
	r.Flags["from-connection"] = "LIVE"
	theirs := []jobrecord.Flag{given("from-connection", "LIVE"), given("to-connection", "AccountKey=c2VjcmV0")}
	whole := map[string]string{"from": "a", "rows": "list", "failed": "f.jsonl"}
	for _, tt := range []struct {
		name  string
		given []jobrecord.Flag
		want  map[string]string
		err   string
	}{
		{"nothing", nil, nil, "give --from-connection LIVE and --to-connection again"},
		{"one of them", theirs[1:], nil, "give --from-connection LIVE again"},
		{"both", theirs, whole, ""},
		{"another setting", append([]jobrecord.Flag{given("from-connection", "OTHER")}, theirs[1:]...), whole, ""}, // the places tell
		{"files elsewhere", append(theirs, given("rows", "b/list"), given("failed", "b/f")), map[string]string{"from": "a"}, ""},
		{"the same again", append(theirs, given("from", "a")), map[string]string{"rows": "list", "failed": "f.jsonl"}, ""},
		{"another", append(theirs, given("from", "b")), nil, `--from was "a"`},
		{"a new one", append(theirs, given("mode", "skip")), nil, "--mode was not given"},
		{"a new file", append(theirs, given("state", "s")), nil, "--state was not given"},
		{"its default", append(theirs, given("mode", "")), whole, ""},
		{"once per run", append(theirs, given("workers", "9")), whole, ""},
		{"afterwards", append(theirs, given("verify", "true")), whole, ""},
		{"slower", append(theirs, given("max-rows-per-second", "9")), whole, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			flags := slices.Clone(tt.given)
			for _, name := range []string{"from", "rows", "failed", "mode", "verify", "workers", "from-connection", "to-connection"} {
				if !slices.ContainsFunc(flags, func(f jobrecord.Flag) bool { return f.Name == name }) {
					flags = append(flags, jobrecord.Flag{Name: name})
				}
			}
			got, err := r.Restore(flags)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %v, want %s", err, tt.err)
				}
				return
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got)\n%s", err, diff)
			}
		})
	}
	if _, err := r.Restore(nil); err == nil {
		t.Error("a record was restored by a program without its flags")
	}
}

// A record has the flags that records have, and no others.
func TestAllowed(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"yes", "workers", "resume"} {
		r := jobrecord.Record{Version: 1, Command: "delete", Flags: map[string]string{name: "x"}}
		if _, err := r.Restore([]jobrecord.Flag{{Name: name}}); err == nil || !strings.Contains(err.Error(), "which no checkpoint has") {
			t.Errorf("--%s: %v", name, err)
		}
	}
	r := jobrecord.Record{Flags: map[string]string{"connection": "AzureWebJobsStorage"}}
	if set, err := r.Restore([]jobrecord.Flag{{Name: "connection", Default: "AzureWebJobsStorage"}}); err != nil || len(set) != 1 {
		t.Errorf("the default: %v, %v", set, err)
	}
}

func TestAt(t *testing.T) {
	t.Parallel()
	r := jobrecord.Record{Places: []string{"http://x/a", "http://x/b"}}
	if err := r.At([]string{"http://x/a", "http://x/b"}); err != nil {
		t.Error(err)
	}
	if err := r.At([]string{"http://x/a", "http://y/b"}); err == nil || !strings.Contains(err.Error(), "not http://x/a and http://y/b") {
		t.Errorf("another account was taken for the record's: %v", err)
	}
}
