package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/lines"
	"tablesweep/internal/problem"
	"tablesweep/internal/sweep"
)

// A file's name tells its form. Rows that are no records come with their text, and the rows
// ahead of a line that can't be read are not lost.
func TestFile(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", lines.MaxBytes+1)
	for _, tt := range []struct {
		name, text string
		want       []string
		err        string
	}{
		{"a.jsonl", "{\"a\":1}\n\nno\n{\"a\":2}", []string{`1 {"a":1}`, "3 refused: no", `4 {"a":2}`}, ""},
		{"a.CSV", "a:Int32,b\n1,x\n,\n2\n", []string{`2 {"a":1,"b":"x"}`, "3 {}", "4 refused: 2"}, ""},
		{"a.csv.failed.failed", "a\nx\n", []string{`2 {"a":"x"}`}, ""},
		{"a.failed", `{"a":1}`, []string{`1 {"a":1}`}, ""},
		{"a.jsonl", "{\"a\":1}\n" + long, []string{`1 {"a":1}`}, "line 2 is longer"},
	} {
		f, err := NewFile(tt.name, strings.NewReader(tt.text))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		err = f.each(t.Context(), 2, func(rows []Row) error {
			if len(rows) > 2 {
				t.Errorf("%s: %d rows at once", tt.name, len(rows))
			}
			for _, row := range rows {
				text := string(row.Record.AppendJSON(nil))
				if row.Err != nil {
					text = "refused: " + string(row.Text)
				}
				got = append(got, fmt.Sprintf("%d %s", row.Line, text))
			}
			return nil
		})
		if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
	if _, err := NewFile("a.csv", strings.NewReader("a:Float\n")); problem.Of(err).Kind != problem.Invalid {
		t.Errorf("a header of an unknown type: %v", err)
	}
}

// A pipe may stay open: its rows are handed over as they come, and an interrupt ends the wait for more.
func TestFileIsAPipe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in, out := io.Pipe()
		f, err := NewFile("people", in)
		if err != nil {
			t.Fatal(err)
		}
		ctx, interrupt := context.WithCancel(t.Context())
		rows, ended := 0, make(chan error, 1)
		go func() {
			ended <- f.Each(ctx, func(some []Row) error {
				rows += len(some)
				return nil
			})
		}()
		for want := range 2 {
			if _, err := io.WriteString(out, "{\"a\":1}\n"); err != nil {
				t.Fatal(err)
			}
			if synctest.Wait(); rows != want+1 {
				t.Errorf("%d rows have come, want %d", rows, want+1)
			}
		}
		interrupt()
		synctest.Wait()
		select {
		case err := <-ended:
			if !errors.Is(err, sweep.ErrInterrupted) {
				t.Error(err)
			}
		default:
			t.Error("an interrupt does not end it")
		}
		_ = out.Close()
	})
}

// TestStoredNote: the progress of an import, as version 1 writes it, is read. What a later
// version wrote is left alone.
func TestStoredNote(t *testing.T) {
	t.Parallel()
	const stored = `{"version":1,"size":65,"modified":"2026-02-03T04:05:06Z","catalog":"CATALOG","rows":2,"inserted":1,"unchanged":0,"refused":1,"failedBytes":3}`
	in := newInserter(t, io.Discard)
	path := filepath.Join(t.TempDir(), "people.jsonl")
	write(t, path, "{\"eid\":\"1\",\"at\":\"x\"}\nno\n{\"eid\":\"3\",\"at\":\"x\"}\n{\"eid\":\"4\",\"at\":\"x\"}")
	at := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
	write(t, path+RefusedExt, "no\nof a run that died")
	note := strings.Replace(stored, "CATALOG", in.Index.String()+" "+in.Schema.String(), 1)
	run := func() (Note, int, error) {
		t.Helper()
		behind := 0
		done, err := importFile(t, in.Catalog, path, ImportOptions{Resumed: func(rows int) { behind = rows }})
		return done, behind, err
	}
	for _, wrong := range []string{strings.Replace(note, `"version":1`, `"version":2`, 1), strings.Replace(note, `"size":65`, `"size":66`, 1), "{}"} {
		write(t, path+noteExt, wrong)
		if _, _, err := run(); problem.Of(err).Kind != problem.Invalid {
			t.Errorf("%s: %v", wrong, err)
		}
		if text := content(t, path+noteExt); text != wrong {
			t.Errorf("%q became %q", wrong, text)
		}
	}
	write(t, path+noteExt, note)
	done, behind, err := run()
	if err != nil || behind != 2 || done.Rows != 4 || done.Inserted != 3 || done.Refused != 1 || done.FailedBytes != 3 {
		t.Errorf("went on behind row %d: %+v, %v", behind, done, err)
	}
	if text := content(t, path+RefusedExt); text != "no\n" {
		t.Errorf("refused: %q", text)
	}
	if text := content(t, path+noteExt); text != "" {
		t.Errorf("the note is left: %s", text)
	}
}
