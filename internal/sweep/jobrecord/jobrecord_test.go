package jobrecord_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
	secret.Secret = true
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

// A resumed command takes over what is not given again, and refuses what has changed.
func TestRestore(t *testing.T) {
	t.Parallel()
	r, err := jobrecord.Parse([]byte(stored), "copy")
	if err != nil {
		t.Fatal(err)
	}
	all := []string{"from", "rows", "failed", "mode", "verify", "workers", "from-connection", "to-connection"}
	for _, tt := range []struct {
		name  string
		given []jobrecord.Flag
		want  map[string]string
		err   string
	}{
		{"nothing", nil, nil, "--to-connection may have held a secret"},
		{"the secret", nil, map[string]string{"from": "a", "rows": "list", "failed": "f.jsonl"}, ""},
		{"files elsewhere", []jobrecord.Flag{given("rows", "b/list"), given("failed", "b/f")}, map[string]string{"from": "a"}, ""},
		{"the same again", []jobrecord.Flag{given("from", "a")}, map[string]string{"rows": "list", "failed": "f.jsonl"}, ""},
		{"another", []jobrecord.Flag{given("from", "b")}, nil, `--from was "a"`},
		{"a new one", []jobrecord.Flag{given("mode", "skip")}, nil, "--mode was not given"},
		{"its default", []jobrecord.Flag{given("mode", "")}, map[string]string{"from": "a", "rows": "list", "failed": "f.jsonl"}, ""},
		{"once per run", []jobrecord.Flag{given("workers", "9")}, map[string]string{"from": "a", "rows": "list", "failed": "f.jsonl"}, ""},
		{"afterwards", []jobrecord.Flag{given("verify", "true")}, map[string]string{"from": "a", "rows": "list", "failed": "f.jsonl"}, ""},
		{"a connection", []jobrecord.Flag{given("from-connection", "OTHER")}, map[string]string{"from": "a", "rows": "list", "failed": "f.jsonl"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var flags []jobrecord.Flag
			for _, name := range all {
				flag := jobrecord.Flag{Name: name}
				for _, g := range tt.given {
					if g.Name == name {
						flag = g
					}
				}
				if name == "to-connection" && tt.name != "nothing" {
					flag = given(name, "AccountKey=c2VjcmV0")
				}
				flags = append(flags, flag)
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
