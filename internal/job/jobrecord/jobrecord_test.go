package jobrecord_test

import (
	"cmp"
	"maps"
	"strings"
	"testing"

	diff "github.com/google/go-cmp/cmp"

	"tablesweep/internal/job/jobrecord"
	"tablesweep/internal/proof"
)

func given(name string, keep jobrecord.Keep, value string) jobrecord.Option {
	return jobrecord.Option{Name: name, Keep: keep, Value: value}
}

// stored is a record in the current form.
const stored = `{"version":1,"command":"copy","flags":{"failed":"f.jsonl","from":"a","rows":"list"},"again":["to-connection"],"places":["http://x/a","http://x/b"],"rows":"digest"}`

// TestStoredFormat checks the form of a record. If the form changes, other versions cannot read the record, so the version must change as well.
func TestStoredFormat(t *testing.T) {
	t.Parallel()
	secret := given("to-connection", jobrecord.EachRun, "AccountKey=c2VjcmV0")
	secret.Again = true
	r := jobrecord.New("copy", []jobrecord.Option{
		given("from", jobrecord.Fixed, "a"), given("rows", jobrecord.File, "list"), given("failed", jobrecord.AnyFile, "f.jsonl"), secret, given("workers", jobrecord.PerRun, "3"),
		{Name: "mode", Keep: jobrecord.Fixed, Value: "replace", Default: "replace"},
	}, []string{"http://x/a", "http://x/b"}, "digest")
	if diff := diff.Diff(stored, string(r.JSON())); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	back, err := jobrecord.Parse(r.JSON(), "copy")
	if diff := diff.Diff(r, back); diff != "" || err != nil {
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

// A resumed command uses the recorded values of options that are not given. It refuses options that have changed, and options that a file must not
// choose.
func TestRestore(t *testing.T) {
	t.Parallel()
	r, err := jobrecord.Parse([]byte(stored), "copy")
	proof.Must(t, err)
	r.Flags["from-connection"] = "LIVE"
	keeps := map[string]jobrecord.Keep{
		"from": jobrecord.Fixed, "rows": jobrecord.File, "failed": jobrecord.AnyFile, "mode": jobrecord.Fixed, "verify": jobrecord.Added, "workers": jobrecord.PerRun,
		"from-connection": jobrecord.EachRun, "to-connection": jobrecord.EachRun, "state": jobrecord.File, "max-rows-per-second": jobrecord.Free,
	}
	type values map[string]string
	with := func(more values) values {
		maps.Copy(more, values{"from-connection": cmp.Or(more["from-connection"], "LIVE"), "to-connection": "AccountKey=c2VjcmV0"})
		return more
	}
	whole := values{"from": "a", "rows": "list", "failed": "f.jsonl"}
	for _, tt := range []struct {
		name        string
		given, want values
		err         string
	}{
		{"nothing", nil, nil, "give --from-connection LIVE and --to-connection again"},
		{"one of two options", values{"to-connection": "AccountKey=c2VjcmV0"}, nil, "give --from-connection LIVE again"},
		{"both", with(values{}), whole, ""},
		{"another setting", with(values{"from-connection": "OTHER"}), whole, ""}, // [Record.CheckPlaces] checks connections by their places
		{"files elsewhere", with(values{"rows": "b/list", "failed": "b/f"}), values{"from": "a"}, ""},
		{"the same again", with(values{"from": "a"}), values{"rows": "list", "failed": "f.jsonl"}, ""},
		{"another", with(values{"from": "b"}), nil, `--from was "a"`},
		{"a new one", with(values{"mode": "skip"}), nil, "--mode cannot be added"},
		{"a new file", with(values{"state": "s"}), nil, "--state cannot be added"},
		{"once per run", with(values{"workers": "9"}), whole, ""},
		{"afterwards", with(values{"verify": "true"}), whole, ""},
		{"slower", with(values{"max-rows-per-second": "9"}), whole, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var options []jobrecord.Option
			for name, keep := range keeps {
				options = append(options, given(name, keep, tt.given[name]))
			}
			got, err := r.Restore(options)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %v, want %s", err, tt.err)
				}
				return
			}
			if diff := diff.Diff(tt.want, values(got)); diff != "" || err != nil {
				t.Errorf("%v (-want +got)\n%s", err, diff)
			}
		})
	}
	if _, err := r.Restore(nil); err == nil {
		t.Error("a command without the options of the record restored the record")
	}
}

// A record contains only the options that the command allows.
func TestRecordContainsOnlyAllowedOptions(t *testing.T) {
	t.Parallel()
	r := jobrecord.Record{Version: 1, Command: "delete", Flags: map[string]string{"yes": "true"}}
	if _, err := r.Restore([]jobrecord.Option{{Name: "yes", Default: "false", Value: "false"}}); err == nil || !strings.Contains(err.Error(), "which is not allowed in a checkpoint") {
		t.Errorf("got %v", err)
	}
	r = jobrecord.Record{Flags: map[string]string{"connection": "AzureWebJobsStorage"}}
	standard := given("connection", jobrecord.EachRun, "AzureWebJobsStorage")
	standard.Default = standard.Value
	if set, err := r.Restore([]jobrecord.Option{standard}); err != nil || len(set) != 1 {
		t.Errorf("restoring an option with its default value: got %v, %v", set, err)
	}
}

func TestCheckPlaces(t *testing.T) {
	t.Parallel()
	r := jobrecord.Record{Places: []string{"http://x/a", "http://x/b"}}
	if err := r.CheckPlaces([]string{"http://x/a", "http://x/b"}); err != nil {
		t.Error(err)
	}
	if err := r.CheckPlaces([]string{"http://x/a", "http://y/b"}); err == nil || !strings.Contains(err.Error(), "not http://x/a and http://y/b") {
		t.Errorf("places of another account: got error %v, want one that names both places", err)
	}
}
