package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tablesweep/internal/file/journal"
	"tablesweep/internal/job"
	"tablesweep/internal/job/jobrecord"
	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/local/emulator/fault"
	"tablesweep/internal/place"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/storage"
)

// sinceWorld is an account whose clock the test sets. The clock differs by years from this machine's.
type sinceWorld struct {
	*testing.T
	emulator   *emulator.Emulator
	account    *storage.Account
	connection string
	now        atomic.Int64                         // the service's time, in nanoseconds
	onRequest  atomic.Pointer[func(emulator.Event)] // nil if no function is called
}

func newSinceWorld(t *testing.T) *sinceWorld {
	w := &sinceWorld{T: t}
	w.now.Store(time.Date(2031, 5, 6, 12, 0, 0, 300_000_000, time.UTC).UnixNano())
	w.emulator, w.account, w.connection = serveEmulator(t, emulator.Options{
		Clock: func() time.Time { return time.Unix(0, w.now.Load()) },
		OnRequest: func(e emulator.Event) {
			if f := w.onRequest.Load(); f != nil {
				(*f)(e)
			}
		},
	})
	return w
}

// pass advances the service's clock.
func (w *sinceWorld) pass(d time.Duration) { w.now.Add(int64(d)) }

func (w *sinceWorld) put(table, row string, v int64) {
	w.Helper()
	e := storage.Entity{Key: key.Key{Partition: "p" + row, Row: row}, Properties: []storage.Property{storage.Int64Property("V", v)}}
	proof.Must(w, w.account.Table(table).Write(w.Context(), storage.Op{Kind: storage.Replace, Row: e.Row()}))
}

// rows returns the rows of a table, each as ROW=V.
func (w *sinceWorld) rows(table string) string {
	w.Helper()
	var all []string
	if err := w.account.Table(table).All(w.Context(), storage.Query{}, func(p storage.Page) error {
		for _, e := range p.Entities() {
			all = append(all, fmt.Sprintf("%s=%d", e.Key.Row, e.Int("V")))
		}
		return nil
	}); err != nil {
		w.Fatal(err)
	}
	return strings.Join(all, " ")
}

// run runs a command in this process, and returns its output and exit code.
func (w *sinceWorld) run(ctx context.Context, args ...string) (stdout, stderr string, code int) {
	out, errText, err := inProcess(ctx, strings.NewReader(""), append(args, "--connection", w.connection)...)
	if err != nil {
		errText += err.Error()
	}
	return out, errText, exitCode(err)
}

// copies runs a copy, which must write the wanted number of rows.
func (w *sinceWorld) copies(want int, args ...string) string {
	w.Helper()
	out, stderr, code := w.run(w.Context(), append(args, "--json")...)
	var r jobResult
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 || r.Written+r.Skipped+r.Failed != int64(want) {
		w.Errorf("%v: %v, code %d, want %d rows\n%s%s", args, err, code, want, out, stderr)
	}
	return stderr
}

// refuses runs a command that must be refused without a change.
func (w *sinceWorld) refuses(want string, args ...string) {
	w.Helper()
	if _, stderr, code := w.run(w.Context(), args...); code != exitUsage || !strings.Contains(stderr, want) {
		w.Errorf("%v: code %d, want %s\n%s", args, code, want, stderr)
	}
}

// TestSinceLast: copies since the last success copy the rows that were written since, by the service's clock, with an overlap. If a copy fails, or its state
// cannot be written, the next copy begins at the same time again.
func TestSinceLast(t *testing.T) {
	t.Parallel()
	w := newSinceWorld(t)
	emulatortest.Table(t, w.account, "source", nil)
	state := filepath.Join(t.TempDir(), "orders.state")
	last := []string{"copy", "--from", "source", "--to", "dest", "--since", "last", "--state", state}
	w.put("source", "a", 1)
	w.pass(10 * time.Minute)
	if stderr := w.copies(1, last...); !strings.Contains(stderr, "copies all rows") || !strings.Contains(stderr, "does not find deleted rows") {
		t.Error(stderr)
	}
	w.pass(time.Minute)
	w.put("source", "b", 1)
	w.pass(10 * time.Minute)
	if stderr := w.copies(1, last...); !strings.Contains(stderr, "written since 2031-05-06T12:05:00Z") {
		t.Error(stderr)
	}
	w.copies(0, append(last, "--since-overlap", "0s")...)
	w.pass(time.Minute)
	w.put("source", "c", 1)
	w.put("source", "a", 2)
	proof.Must(t, w.account.Table("source").Write(t.Context(), storage.Op{Kind: storage.Delete, Row: storage.Row{Key: key.Key{Partition: "pb", Row: "b"}}}))
	if out, stderr, code := w.run(t.Context(), append(last, "--dry-run")...); code != 0 || !strings.Contains(out, "would copy 2 rows") {
		t.Errorf("got exit code %d; output:\n%s%s", code, out, stderr)
	}

	// A copy that fails does not change the state.
	before, err := os.ReadFile(state)
	proof.Must(t, err)
	if _, stderr, code := w.run(t.Context(), append(last, "--mode", "fail")...); code != exitFailedRows {
		t.Errorf("got exit code %d; stderr:\n%s", code, stderr)
	}
	if after, err := os.ReadFile(state); err != nil || string(before) != string(after) {
		t.Errorf("%v: the state is %s, want it unchanged: %s", err, after, before)
	}

	// A copy that is killed before it writes the state does not change it.
	w.pass(time.Hour)
	block := func(e emulator.Event) {
		if e.Kind == fault.Batch || e.Kind == fault.Update {
			_ = os.Rename(state, state+".aside")
			_ = os.MkdirAll(filepath.Join(state, "x"), 0o700)
		}
	}
	w.onRequest.Store(&block)
	if _, stderr, code := w.run(t.Context(), last...); code != exitFailed || !strings.Contains(stderr, "the rows are copied, but the file of --state") {
		t.Errorf("got exit code %d; stderr:\n%s", code, stderr)
	}
	w.onRequest.Store(nil)
	proof.Must(t, os.RemoveAll(state))
	proof.Must(t, os.Rename(state+".aside", state))
	w.copies(2, last...)
	if got, want := w.rows("dest"), "a=2 b=1 c=1"; got != want {
		t.Errorf("the destination's rows are %s, want %s", got, want)
	}
	w.copies(0, last...)
}

// TestSinceState: a state that is damaged, of another version, or about something else is refused, and the error names the file.
func TestSinceState(t *testing.T) {
	t.Parallel()
	w := newSinceWorld(t)
	emulatortest.Table(t, w.account, "source", nil)
	state := filepath.Join(t.TempDir(), "orders.state")
	last := []string{"copy", "--from", "source", "--to", "dest", "--since", "last", "--state", state}
	w.put("source", "a", 1)
	w.copies(1, last...)
	text, err := os.ReadFile(state)
	proof.Must(t, err)
	for name, other := range map[string]string{
		"is damaged: line 2":            string(text[:bytes.IndexByte(text, '\n')+1]), // the file without its last line, the success
		"is not a file of this program": `{"format":"tablesweep-since","version":1}`,
		"was not written by --state":    checkpointOf(t, filepath.Join(t.TempDir(), "checkpoint")),
	} {
		proof.Must(t, os.WriteFile(state, []byte(other), 0o600))
		w.refuses("--state: "+state+" "+name, last...)
	}
	proof.Must(t, os.WriteFile(state, text, 0o600))
	emulatortest.Table(t, w.account, "other", nil)
	w.refuses("another copy", "copy", "--from", "other", "--to", "dest", "--since", "last", "--state", state)
	w.refuses(`/devstoreaccount1/dest2"}`, "copy", "--from", "source", "--to", "dest2", "--since", "last", "--state", state)
	w.refuses(`"range":{"prefix":"p"}`, append(last, "--prefix", "p")...)
	w.refuses(`"filter":"V gt 1L"`, append(last, "--filter", "V gt 1L")...)
	w.refuses(`"select":"V"`, append(last, "--select", "V")...)
	w.refuses("no such file", "copy", "--from", "source", "--to", "dest", "--since", "last", "--state", filepath.Join(state+".d", "x"))
	held, err := journal.Lock(state)
	proof.Must(t, err)
	w.refuses("another process is using it", last...)
	proof.Must(t, held.Close())
	w.copies(1, last...) // within the overlap
	if there, err := filepath.Glob(filepath.Dir(state) + "/*"); len(there) != 1 || err != nil {
		t.Errorf("the directory has %v, %v", there, err)
	}
}

// checkpointOf returns the text of a checkpoint.
func checkpointOf(t *testing.T, path string) string {
	t.Helper()
	f, err := journal.New(path, jobrecord.New("copy", nil, nil, "").JSON())
	if err == nil {
		err = errors.Join(f.Renew(nil), f.Close())
	}
	text, readErr := os.ReadFile(path)
	if err != nil || readErr != nil {
		t.Fatal(err, readErr)
	}
	return string(text)
}

// TestSinceLastRefusesEmptiedDestination: a copy since the last success is refused, without a change, if the destination has lost the rows that were copied.
// Rows that were never copied do not count.
func TestSinceLastRefusesEmptiedDestination(t *testing.T) {
	t.Parallel()
	w := newSinceWorld(t)
	emulatortest.Table(t, w.account, "source", nil)
	state := filepath.Join(t.TempDir(), "orders.state")
	last := []string{"copy", "--from", "source", "--to", "dest", "--since", "last", "--state", state}
	begin := append([]string{"copy", "--from", "nothere", "--to", "dest"}, last[5:]...)
	if _, stderr, code := w.run(t.Context(), begin...); code != exitFailed || job.IsThere(state) {
		t.Errorf("a missing source: code %d\n%s", code, stderr)
	}
	if _, stderr, code := w.run(t.Context(), append(last, "--dry-run")...); code != 0 || job.IsThere(state) {
		t.Errorf("dry run: code %d\n%s", code, stderr)
	}
	dest := w.account.Table("dest")
	w.copies(0, last...)
	proof.Must(t, dest.Delete(t.Context()))
	w.copies(0, last...) // no row is lost
	w.put("source", "a", 1)
	w.pass(time.Hour)
	w.copies(1, last...)
	w.pass(time.Hour)
	w.copies(0, last...)

	lost := func(why string) {
		t.Helper()
		before, err := os.ReadFile(state)
		proof.Must(t, err)
		for _, args := range [][]string{last, append(last, "--dry-run"), append(last, "--checkpoint", state+".ckpt")} {
			_, stderr, code := w.run(t.Context(), args...)
			if code != exitUsage || !strings.Contains(stderr, "--since last: according to --state "+state+", earlier copies wrote rows to "+dest.Address()+", but that table "+why) ||
				!strings.Contains(stderr, "leave --since out to copy all rows again, or name another file with --state") {
				t.Errorf("%v: got exit code %d; stderr:\n%s", args, code, stderr)
			}
		}
		if after, err := os.ReadFile(state); err != nil || string(before) != string(after) {
			t.Errorf("%v: the state is %s, want it unchanged: %s", err, after, before)
		}
	}
	proof.Must(t, dest.Write(t.Context(), storage.Op{Kind: storage.Delete, Row: storage.Row{Key: key.Key{Partition: "pa", Row: "a"}}}))
	lost("contains none of the copied rows")
	proof.Must(t, dest.Delete(t.Context()))
	lost("does not exist")
	if _, err := dest.Query(t.Context(), storage.Query{}); !storage.NotFound(err) {
		t.Errorf("the destination was created: %v", err)
	}

	// The command works without --since, and with another state.
	w.copies(1, slices.Clip(last[:5])...)
	proof.Must(t, w.emulator.SetFaults("empty-page p=0.9")) // a page may be empty, and the row may follow in a later page
	w.copies(0, last...)
	proof.Must(t, w.emulator.SetFaults(""))
	proof.Must(t, dest.Delete(t.Context()))
	w.copies(1, append(slices.Clone(last[:7]), "--state", state+"2")...)
}

// TestSinceTime: --since with a time or a duration works with a filter, with tables and with files. A verification compares only the rows that were copied.
func TestSinceTime(t *testing.T) {
	t.Parallel()
	w := newSinceWorld(t)
	emulatortest.Table(t, w.account, "source", nil)
	for i := range 6 {
		w.put("source", fmt.Sprint(i), int64(i%2))
		w.pass(time.Hour)
	}
	w.copies(2, "copy", "--from", "source", "--to", "ago", "--since", "2h")
	w.copies(3, "copy", "--from", "source", "--to", "exact", "--since", "2031-05-06T15:00:00Z")
	w.copies(4, "copy", "--from", "source", "--to", "overlap", "--since", "2031-05-06T17:00:00+02:00", "--since-overlap", "1h")
	w.copies(6, "copy", "--from", "source", "--to", "day", "--since", "2031-05-06")
	if stderr := w.copies(6, "copy", "--from", "source", "--to", "year", "--since", "0001-01-01"); strings.Contains(stderr, "not there") {
		t.Error(stderr)
	}
	w.refuses("which is in the future: the service's time is 2031-05-06T18:00:00Z", "copy", "--from", "source", "--to", "none", "--since", "2040-01-01")
	w.copies(0, "copy", "--from", "source", "--to", "none", "--since", "2031-05-06T18:04:00Z") // this machine's clock may be ahead
	w.copies(3, "copy", "--from", "source", "--to", "either", "--since", "3h", "--filter", "V eq 0L or V eq 1L")
	out, stderr, code := w.run(t.Context(), "copy", "--from", "source", "--to", "odd", "--since", "4h", "--filter", "V eq 1L", "--verify")
	if code != 0 || !strings.Contains(out, "compared 2 rows") || w.rows("odd") != "3=1 5=1" {
		t.Errorf("got exit code %d, and the rows %s; output:\n%s%s", code, w.rows("odd"), out, stderr)
	}
	if out, stderr, code := w.run(t.Context(), "copy", "--from", "source", "--to", "before", "--filter", "Timestamp lt datetime'2031-05-06T14:00:00Z'", "--verify"); code != 0 || !strings.Contains(out, "compared 2 rows") {
		t.Errorf("got exit code %d; output:\n%s%s", code, out, stderr)
	}
	w.pass(24 * time.Hour) // a verification compares rows that the copy left unchanged
	w.put("source", "9", 0)
	w.copies(1, "copy", "--from", "source", "--to", "exact", "--since", "1h")
	out, stderr, code = w.run(t.Context(), "copy", "--from", "source", "--to", "exact", "--since", "28h", "--mode", "skip", "--verify")
	if code != 0 || !strings.Contains(out, "compared 5 rows") {
		t.Errorf("got exit code %d; output:\n%s%s", code, out, stderr)
	}

	dir := t.TempDir()
	for name, args := range map[string][]string{
		"last": {"--since", "last", "--state", filepath.Join(dir, "state")}, "time": {"--since", "2031-05-06T15:00:00Z", "--verify"},
	} {
		if out, stderr, code := w.run(t.Context(), append([]string{"export", "--from", "source", "--to", filepath.Join(dir, name)}, args...)...); code != 0 {
			t.Errorf("%s: got exit code %d; output:\n%s%s", name, code, out, stderr)
		}
	}
	for name, want := range map[string]string{"last": "<nil>", "time": "2031-05-06 14:55:00 +0000 UTC"} {
		e, err := place.Open(t.Context(), place.Directory(filepath.Join(dir, name)))
		proof.Must(t, err)
		if got := fmt.Sprint(e.Manifest().Since); got != want {
			t.Errorf("%s: since %s, want %s", name, got, want)
		}
	}
	w.pass(time.Minute)
	w.put("source", "10", 0)
	if out, stderr, code := w.run(t.Context(), "export", "--from", "source", "--to", filepath.Join(dir, "then.jsonl"), "--since", "last", "--state", filepath.Join(dir, "state")); code != 0 || !strings.Contains(out, "exported 2 rows") {
		t.Errorf("got exit code %d; output:\n%s%s", code, out, stderr)
	}
}

// TestSinceResumed: a resumed copy continues with the same time of --since, whatever has happened to the state. Its success counts from the beginning of its
// first run.
func TestSinceResumed(t *testing.T) {
	t.Parallel()
	w := newSinceWorld(t)
	emulatortest.Table(t, w.account, "source", nil)
	dir := t.TempDir()
	state, checkpoint := filepath.Join(dir, "state"), filepath.Join(dir, "checkpoint")
	last := []string{"copy", "--from", "source", "--to", "dest", "--since", "last", "--state", state}
	w.put("source", "old", 1)
	w.pass(time.Hour)
	w.copies(1, last...)
	w.pass(time.Hour)
	for _, row := range []string{"x", "y", "z"} {
		w.put("source", row, 1)
	}
	w.pass(time.Hour)

	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	writing := func(e emulator.Event) {
		if e.Table == "dest" && !e.Applied {
			if _, err := os.Stat(checkpoint); err == nil {
				interrupt()
			}
		}
	}
	w.onRequest.Store(&writing)
	if _, stderr, code := w.run(ctx, append(last, "--workers", "1", "--checkpoint", checkpoint)...); code != exitInterrupted {
		t.Fatalf("got exit code %d; stderr:\n%s", code, stderr)
	}
	w.onRequest.Store(nil)
	proof.Must(t, os.Remove(state)) // a new copy would now copy all rows
	w.pass(10 * time.Hour)
	if stderr := w.copies(3, "copy", "--resume", checkpoint); !strings.Contains(stderr, "since 2031-05-06T12:55:00Z") {
		t.Error(stderr)
	}
	if text, err := os.ReadFile(state); err != nil || !strings.Contains(string(text), `"last":"2031-05-06T15:00:00Z"`) {
		t.Errorf("%v: the state is %s", err, text)
	}

	// An export's claim also records the time.
	w.pass(time.Hour)
	w.put("source", "newer", 1)
	w.put("source", "newest", 1)
	proof.Must(t, w.emulator.SetFaults("short-page p=1 rows=1"))
	ctx, interrupt = context.WithCancel(t.Context())
	defer interrupt()
	exported := filepath.Join(dir, "changed")
	reading := func(e emulator.Event) {
		if _, err := os.Stat(filepath.Join(exported, place.ClaimName)); err == nil {
			interrupt()
		}
	}
	w.onRequest.Store(&reading)
	if _, stderr, code := w.run(ctx, "export", "--from", "source", "--to", exported, "--since", "90m"); code != exitInterrupted {
		t.Fatalf("got exit code %d; stderr:\n%s", code, stderr)
	}
	w.onRequest.Store(nil)
	w.pass(10 * time.Hour)
	out, stderr, code := w.run(t.Context(), "export", "--resume", exported)
	if code != 0 || !strings.Contains(out, "exported 2 rows ") {
		t.Errorf("got exit code %d; output:\n%s%s", code, out, stderr)
	}
}
