package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/input/lines"
	"tablesweep/internal/place"
	"tablesweep/internal/problem"
	"tablesweep/internal/proof"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// TestFile reads files whose names determine their form. Rows that are not records must be returned with their text, and rows
// before a line that cannot be read must not be lost.
func TestFile(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", lines.MaxBytes+1)
	for _, tt := range []struct {
		name, text string
		want       []string
		err        string
	}{
		{"a.jsonl", "{\"a\":1}\n\nno\n{\"a\":2}", []string{`1 {"a":1}`, "3 refused: no", `4 {"a":2}`}, ""},
		{"a.CSV", "a,a@type,b\n2,,y\n1,Int32,x\n,,\n2\n", []string{`2 {"a":2,"b":"y"}`, `3 {"a":1,"b":"x"}`, "4 {}", "5 refused: 2"}, ""},
		{"a.csv", "a,big,odd,odd@type\nx,5000000000,1e5,Double\nx,many,1.0,\n", []string{`2 {"a":"x","big":5000000000,"odd":1e5}`, "3 refused: x,many,1.0,"}, ""},
		{"a.csv", "a\n1\n\"2\n3\n", []string{`2 {"a":"1"}`}, "a quote is not closed"},
		{"a.csv.failed.failed", "a\nx\n", []string{`2 {"a":"x"}`}, ""},
		{"a.failed", `{"a":1}`, []string{`1 {"a":1}`}, ""},
		{"a.jsonl", "{\"a\":1}\n" + long, []string{`1 {"a":1}`}, "line 2 is longer"},
	} {
		form := place.CSV{}
		if strings.Contains(tt.text, "big") {
			form.Types = map[string]storage.Type{"big": storage.Int64}
		}
		f, err := newRowReader(t.Context(), tt.name, strings.NewReader(tt.text), form)
		proof.Must(t, err)
		var got []string
		err = f.forEach(t.Context(), 2, func(rows []Row) error {
			if len(rows) > 2 {
				t.Errorf("%s: a call gets %d rows", tt.name, len(rows))
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
			t.Errorf("%s: the error is %v, want %q", tt.name, err, tt.err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: the rows differ (-want +got):\n%s", tt.name, diff)
		}
	}
	if _, err := newRowReader(t.Context(), "a.csv", strings.NewReader("a,a\n"), place.CSV{}); problem.Of(err).Kind != problem.Invalid {
		t.Errorf("a file with two equal columns: the error is %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newRowReader(gone, "a.csv", strings.NewReader("a,a@type\n1,\n"), place.CSV{}); !errors.Is(err, task.ErrInterrupted) {
		t.Errorf("after an interrupt, the error is %v", err)
	}
}

// TestArriving reads from a pipe that stays open. Rows must be passed on as they arrive, and an interrupt must end the wait for
// more rows.
func TestArriving(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		in, out := io.Pipe()
		ctx, interrupt := context.WithCancel(t.Context())
		rows, ended := 0, make(chan error, 1)
		go func() {
			ended <- Arriving(ctx, in, func(some []Row) error {
				rows += len(some)
				return nil
			})
		}()
		for want := range 2 {
			if _, err := io.WriteString(out, "{\"a\":1}\n"); err != nil {
				t.Fatal(err)
			}
			if synctest.Wait(); rows != want+1 {
				t.Errorf("%d rows were passed on, want %d", rows, want+1)
			}
		}
		interrupt()
		synctest.Wait()
		select {
		case err := <-ended:
			if !errors.Is(err, task.ErrInterrupted) {
				t.Error(err)
			}
		default:
			t.Error("Arriving does not end after an interrupt")
		}
		_ = out.Close()
	})
}

// stored is an import's checkpoint in the form of version 1.
const stored = `7c564770 {"disk":0,"event":{"version":1,"job":{},"lines":1}}
5f3e53e7 {"disk":0,"event":{"file":"people.jsonl","size":65,"modified":"2026-02-03T04:05:06Z","rows":0,"inserted":0,"unchanged":0,"refused":0,"failedBytes":0}}
101a6f72 {"disk":221,"event":{"file":"people.jsonl","size":65,"modified":"2026-02-03T04:05:06Z","rows":2,"inserted":1,"unchanged":0,"refused":1,"failedBytes":3}}
fc65fa57 {"disk":383,"event":{"file":"people.jsonl","size":65,"modified":"2026-02-03T04:05:06Z","rows":4,"inserted":3,"unchanged":0,"refused":1,"failedBytes":3}}
`

// TestStoredNote checks that an import writes its progress in the stored form, and reads it. If the imported file has changed,
// or if the file of failed rows is missing, the import must fail.
func TestStoredNote(t *testing.T) {
	c := newCatalog(t)
	t.Chdir(t.TempDir())
	const path = "people.jsonl"
	write(t, path, "{\"eid\":\"1\",\"at\":\"x\"}\nno\n{\"eid\":\"3\",\"at\":\"x\"}\n{\"eid\":\"4\",\"at\":\"x\"}")
	at := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	touch := func(at time.Time) {
		proof.Must(t, os.Chtimes(path, at, at))
	}
	touch(at)
	if _, err := importFile(t, c, path, ImportOptions{Checkpoint: checkpoint(t, "ckpt"), most: 2}); err != nil {
		t.Fatal(err)
	}
	text := content(t, "ckpt")
	if diff := cmp.Diff(strings.Split(stored, "\n"), strings.Split(text, "\n")); diff != "" {
		t.Errorf("the written checkpoint differs from the stored one (-stored +written)\n%s", diff)
	}

	all := strings.SplitAfter(text, "\n")
	run := func() (done Note, behind int, err error) {
		t.Helper()
		write(t, "ckpt", all[0]+all[1]+all[2]+all[3][:20])
		done, err = importFile(t, c, path, ImportOptions{Checkpoint: checkpoint(t, "ckpt"), Resumed: func(rows int) { behind = rows }})
		return done, behind, err
	}
	touch(at.Add(time.Second))
	if _, _, err := run(); problem.Of(err).Kind != problem.Invalid || !strings.Contains(err.Error(), "has changed") {
		t.Errorf("the import of a changed file returns the error %v", err)
	}
	touch(at)
	write(t, path+FailedExt, "")
	if _, _, err := run(); problem.Of(err).Kind != problem.Invalid || !strings.Contains(err.Error(), "shorter than before") {
		t.Errorf("without the file of failed rows, the import returns the error %v", err)
	}
	write(t, path+FailedExt, "no\nof a run that died")
	done, behind, err := run()
	if err != nil || behind != 2 || done.Rows != 4 || done.Inserted != 1 || done.Unchanged != 2 || done.Failed != 1 || done.FailedBytes != 3 {
		t.Errorf("the import continues after row %d, and returns %+v, error %v", behind, done, err)
	}
	if text := content(t, path+FailedExt); text != "no\n" {
		t.Errorf("the file of failed rows contains %q", text)
	}
}
