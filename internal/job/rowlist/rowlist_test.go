package rowlist_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tablesweep/internal/action"
	"tablesweep/internal/job/rowlist"
	"tablesweep/internal/key"
	"tablesweep/internal/proof"
	"tablesweep/internal/task"
)

// A job can read the list that another job wrote. It gets each listed row within its range once.
func TestListsAreReadAsWritten(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "failed.jsonl")
	w, err := rowlist.Create(t.Context(), path, true)
	proof.Must(t, err)
	odd := key.Key{Partition: "a<&>\"\n", Row: "ü\u2028"}
	for _, k := range []key.Key{odd, {Partition: "b", Row: "1"}, {Partition: "c"}, {Partition: "b", Row: "1"}} {
		proof.Must(t, w.Add([]action.Failure{{Key: k, Reason: "no room"}}))
	}
	proof.Must(t, w.Close(true))
	text, err := os.ReadFile(path)
	proof.Must(t, err)
	if want := `{"PartitionKey":"b","RowKey":"1","reason":"no room"}`; !strings.Contains(string(text), want) {
		t.Errorf("the list lacks %s:\n%s", want, text)
	}
	digests := map[string]bool{}
	for before, want := range map[string]int64{"": 3, "c": 2} {
		keys, digest, err := rowlist.Read(t.Context(), strings.NewReader("\ufeff"+string(text)), key.Bounds{Before: before}.Range())
		proof.Must(t, err)
		if n := keys.Len(); n != want {
			t.Errorf("before %q: got %d rows, want %d", before, n, want)
		}
		digests[digest] = true
	}
	if _, digest, err := rowlist.Read(t.Context(), strings.NewReader(string(text)), key.Range{}); err != nil || digests[digest] || len(digests) != 1 {
		t.Errorf("the digests of two equal lists are %v, the digest of another list is %s; error %v", digests, digest, err)
	}
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{\"PartitionKey\":\"a\",\"RowKey\":\"b\"}\n\n{\"partitionKey\":\"a\",\"RowKey\":\"b\"}": "line 3 must be a JSON object with PartitionKey and RowKey: PartitionKey or RowKey is missing",
		`{"PartitionKey":"a","RowKey":"b","RowKey":"c"}`:                                         "RowKey: is given twice",
		`["a","b"]`: "line 1 must be",
	} {
		if _, _, err := rowlist.Read(t.Context(), strings.NewReader(text), key.Range{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	if _, _, err := rowlist.Read(ctx, strings.NewReader(`{"PartitionKey":"a","RowKey":"b"}`), key.Range{}); !errors.Is(err, task.ErrInterrupted) {
		t.Errorf("got %v, want an interrupt", err)
	}
}

// A list is continued after its last complete line. A file that is not a list is not changed.
func TestContinue(t *testing.T) {
	t.Parallel()
	const row, added = `{"PartitionKey":"a","RowKey":"b","reason":"full"}`, `{"PartitionKey":"c","RowKey":"d"}` + "\n"
	for _, tt := range []struct{ name, there, want string }{
		{"nothing", "", added},
		{"whole lines", "x\n" + row + "\n", "x\n" + row + "\n" + added},
		{"a line that was cut off", row + "\n" + `{"Partit`, row + "\n" + added},
		{"the first one", `{"PartitionKey":"a`, added},
		{"a line without its end", row, row + "\n" + added},
		{"notes", "buy milk\n", ""},
		{"notes without an end", "call the bank about the loan", ""},
		{"notes after a row", row + "\nbuy milk", ""},
		{"a scan's rows", `{"PartitionKey":"a","RowKey":"b","N":1}` + "\n", ""},
		{"an empty line", row + "\n\n", ""},
		{"half a row", `{"PartitionKey":"a"}` + "\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "failed.jsonl")
			proof.Must(t, os.WriteFile(path, []byte(tt.there), 0o600))
			if _, err := rowlist.Create(t.Context(), path, false); !errors.Is(err, os.ErrExist) {
				t.Errorf("creating an existing list: got error %v", err)
			}
			w, err := rowlist.Continue(t.Context(), path, false)
			if err == nil {
				err = errors.Join(w.Add([]action.Failure{{Key: key.Key{Partition: "c", Row: "d"}}}), w.Close(true))
			}
			if refused := tt.want == ""; refused {
				tt.want = tt.there
				if !errors.Is(err, rowlist.ErrNoList) {
					t.Errorf("got %v, want %v", err, rowlist.ErrNoList)
				}
			} else if err != nil {
				t.Error(err)
			}
			if text, err := os.ReadFile(path); string(text) != tt.want || err != nil {
				t.Errorf("the file contains %q, error %v", text, err)
			}
		})
	}
}

// Close removes an empty list that was not used, because such a list would block a later job.
func TestCloseUnused(t *testing.T) {
	t.Parallel()
	for _, unused := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "failed.jsonl")
		w, err := rowlist.Create(t.Context(), path, false)
		proof.Must(t, err)
		proof.Must(t, w.Close(unused))
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) != unused {
			t.Errorf("Close with unused = %v: the state of the file is %v", unused, err)
		}
	}
}
