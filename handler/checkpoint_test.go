package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"tablesweep/internal/catalog/load"
	"tablesweep/internal/file/journal"
	"tablesweep/internal/job"
	"tablesweep/internal/job/jobrecord"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/place"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
)

// forged writes a checkpoint with these flags, as an attacker could.
func forged(t *testing.T, path, command string, flags map[string]string, event any, places ...string) {
	t.Helper()
	f, err := journal.New(path, jobrecord.Record{Version: 1, Command: command, Flags: flags, Places: places}.JSON())
	if err == nil {
		err = f.Renew([]any{event})
	}
	if err == nil {
		err = f.Close()
	}
	proof.Must(t, err)
}

// TestForgedCheckpoint checks that a file given to --resume chooses no account, no file outside its directory, and no answer to a question.
func TestForgedCheckpoint(t *testing.T) {
	_, a, connection := serveEmulator(t, emulator.Options{})
	rows := manyRows(1, 3)
	table := emulatortest.Table(t, a, "orders", rows)
	t.Setenv("AzureWebJobsStorage", connection)
	t.Setenv("ARCHIVE", connection)
	home := t.TempDir()
	notes, elsewhere := filepath.Join(home, "notes"), filepath.Join(t.TempDir(), "notes")
	for _, path := range []string{notes, elsewhere} {
		proof.Must(t, os.WriteFile(path, []byte("call the bank about the loan"), 0o600))
	}
	for link, to := range map[string]string{"link": elsewhere, "links": filepath.Dir(elsewhere)} {
		if err := os.Symlink(to, filepath.Join(home, link)); err != nil {
			t.Skip(err)
		}
	}
	const again = " again: for safety, a checkpoint does not supply connections"
	for _, tt := range []struct {
		name, command string
		flags         map[string]string
		want          string
	}{
		{"a connection string", "copy", map[string]string{"from": "orders", "to": "stolen", "to-connection": "AccountName=a;AccountKey=c2VjcmV0"}, "give --to-connection again"},
		{"an account's URL", "copy", map[string]string{"from": "orders", "to": "stolen", "to-connection": "https://a.table.example.org"}, "give --to-connection again"},
		{"another setting", "copy", map[string]string{"from": "orders", "to": "stolen", "to-connection": "ARCHIVE"}, "give --to-connection ARCHIVE" + again},
		{"a URL", "copy", map[string]string{"from": "orders", "to": "https://a.blob.example.org/c/p"}, "give --to again"},
		{"a source's URL", "copy", map[string]string{"from": "https://a.blob.example.org/c/p", "to": "orders"}, "give --from again"},
		{"a directory elsewhere", "copy", map[string]string{"from": "./../export", "to": "orders"}, "give --from again"},
		{"a file elsewhere", "copy", map[string]string{"from": "orders", "to": "more", "failed": elsewhere}, "give --failed again"},
		{"a list behind a link", "copy", map[string]string{"from": "orders", "to": "more", "failed": "./link"}, "give --failed again"},
		{"a directory behind a link", "copy", map[string]string{"from": "./links/export", "to": "more"}, "give --from again"},
		{"a program in a file", "copy", map[string]string{"from": "orders", "to": "more", "map": "@" + elsewhere}, "give --map again"},
		{"a file that is not a list", "copy", map[string]string{"from": "orders", "to": "more", "failed": "./notes"}, "notes is not a list of failed rows"},
		{"a list elsewhere", "delete", map[string]string{"table": "orders", "rows": elsewhere}, "give --rows again"},
		{"a state elsewhere", "copy", map[string]string{"from": "orders", "to": "more", "since": "last", "state": elsewhere}, "give --state again"},
		{"a catalog", "import", map[string]string{"catalog": "people"}, "give --catalog people again"},
		{"a question", "delete", map[string]string{"table": "orders"}, "cannot ask whether to delete all rows of " + table.Address()},
		{"its answer", "delete", map[string]string{"table": "orders", "yes": "true"}, "the file contains the flag --yes, which is not allowed in a checkpoint"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			places := []string{table.Address()}
			if tt.command == "copy" {
				places = append(places, a.Table(tt.flags["to"]).Address())
			}
			point := filepath.Join(home, uuid.NewString())
			forged(t, point, tt.command, tt.flags, struct{}{}, places...)
			args := []string{tt.command, "--resume", point}
			if tt.command == "import" {
				args = slices.Insert(args, 0, "catalog")
			}
			_, err := user(t.Context(), strings.NewReader(""), args...)
			if exitCode(err) != exitUsage || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "c2VjcmV0") {
				t.Errorf("the error is %v, want %s", err, tt.want)
			}
		})
	}
	for _, path := range []string{notes, elsewhere} {
		if text, err := os.ReadFile(path); err != nil || string(text) != "call the bank about the loan" {
			t.Errorf("the file %s is now %q, %v; want it unchanged", path, text, err)
		}
	}
	if !hasRows(t, a, "orders", len(rows)) {
		t.Error("rows were deleted")
	}

	point := filepath.Join(home, "import")
	forged(t, point, "import", nil, load.Note{File: elsewhere})
	if _, err := user(t.Context(), nil, "catalog", "import", "--resume", point); err == nil || !strings.Contains(err.Error(), "give the file of records again") {
		t.Errorf("a forged import's checkpoint: %v", err)
	}
	dir := filepath.Join(home, "export")
	proof.Must(t, os.Mkdir(dir, 0o700))
	forged(t, filepath.Join(dir, place.JournalName), "copy", map[string]string{"from": "orders", "from-connection": "https://a.table.example.org"}, struct{}{})
	if _, err := user(t.Context(), nil, "export", "--resume", dir); err == nil || !strings.Contains(err.Error(), "give --from-connection again") {
		t.Errorf("a forged export's journal: %v", err)
	}
}

// TestForgedTables checks that a forged directory of many tables does not choose which files are removed or truncated.
func TestForgedTables(t *testing.T) {
	t.Parallel()
	_, a, from := serveEmulator(t, emulator.Options{})
	_, b, to := serveEmulator(t, emulator.Options{})
	emulatortest.Table(t, a, "orders", manyRows(1, 3))
	for _, table := range []string{"orders", "../notes"} {
		home := t.TempDir()
		points, lists := filepath.Join(home, "points"), filepath.Join(home, "lists")
		for _, dir := range []string{points, lists} {
			proof.Must(t, os.Mkdir(dir, 0o700))
		}
		notes := filepath.Join(lists, table+".jsonl")
		proof.Must(t, os.WriteFile(notes, []byte("call the bank\n"), 0o600))
		places := []string{job.Home{Account: a}.Address(), job.Home{Account: b}.Address()}
		forged(t, filepath.Join(points, job.TablesJournal), "copy", map[string]string{"all": "true", "failed": "./lists"}, job.TableResult{Table: table, State: job.Failed}, places...)
		_, err := user(t.Context(), nil, "copy", "--resume", points, "--from-connection", from, "--to-connection", to)
		if err == nil || errors.Is(err, journal.ErrDamaged) {
			t.Errorf("%s: the error is %v", table, err)
		}
		if text, err := os.ReadFile(notes); string(text) != "call the bank\n" || err != nil {
			t.Errorf("%s: the file is now %q, error %v", table, text, err)
		}
	}
}

// TestForgedTable checks that the checkpoint of one of many tables chooses only what the command was given. The checkpoint is unlocked when it is refused.
func TestForgedTable(t *testing.T) {
	t.Parallel()
	_, a, from := serveEmulator(t, emulator.Options{})
	_, b, to := serveEmulator(t, emulator.Options{})
	emulatortest.Table(t, a, "orders", manyRows(1, 3))
	source, destination := job.Home{Account: a}.Address(), job.Home{Account: b}.Address()
	for _, tt := range []struct {
		flags map[string]string
		place string
		want  string
	}{
		{map[string]string{"from": "orders", "to": "orders", "prefix": "p0"}, "/orders", "this table's checkpoint was made with --prefix, but the command for all tables was run without --prefix"},
		{map[string]string{"from": "orders", "to": "orders"}, "/elsewhere", "the checkpoint is for "},
	} {
		points := t.TempDir()
		point := filepath.Join(points, "orders"+job.TableExt)
		forged(t, filepath.Join(points, job.TablesJournal), "copy", map[string]string{"all": "true"}, job.TableResult{Table: "orders", State: job.Pending}, source, destination)
		forged(t, point, "copy", tt.flags, nil, source+"/orders", destination+tt.place)
		output, err := user(t.Context(), nil, "copy", "--resume", points, "--from-connection", from, "--to-connection", to)
		if err == nil || !strings.Contains(output, tt.want) {
			t.Errorf("the error is %v, want %s; output:\n%s", err, tt.want, output)
		}
		lock, err := journal.Lock(point)
		proof.Must(t, err)
		if err := lock.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestResumedCountsAreMinimums checks that a resumed deletion or enqueue prints its counts as minimums, because a checkpoint that has lost its last lines
// looks complete.
func TestResumedCountsAreMinimums(t *testing.T) {
	_, a, connection := serveEmulator(t, emulator.Options{})
	emulatortest.Table(t, a, "orders", manyRows(1, 3))
	emulatortest.Table(t, a, "copied", nil)
	queue, err := a.Queue("work")
	proof.Must(t, err)
	t.Setenv("AzureWebJobsStorage", connection)
	source := a.Table("orders").Address()
	for _, tt := range []struct {
		command, other string // the address of the rows' destination
		flags          map[string]string
		want           string
	}{
		{"delete", "", map[string]string{"table": "orders"}, "deleted at least 0 of 0 rows"},
		{"enqueue", queue.Address(), map[string]string{"table": "orders", "queue": "work"}, ", perhaps more sent twice"},
		{"copy", a.Table("copied").Address(), map[string]string{"from": "orders", "to": "copied"}, "copied 0 of 0 rows"},
	} {
		for _, asJSON := range []bool{false, true} {
			path := filepath.Join(t.TempDir(), "c.ckpt")
			forged(t, path, tt.command, tt.flags, struct{}{}, slices.DeleteFunc([]string{source, tt.other}, func(place string) bool { return place == "" })...)
			args, want := []string{tt.command, "--resume", path, "--progress", "none"}, tt.want
			if asJSON {
				args, want = append(args, "--json"), `"moreBefore":true`
			}
			if tt.command == "delete" {
				args = append(args, "--yes")
			}
			output, err := user(t.Context(), nil, args...)
			if has := strings.Contains(output, want); err != nil || has == (asJSON && tt.command == "copy") {
				t.Errorf("%v: %v, output %s", args, err, output)
			}
		}
	}
}

// done is a command that has already done its work.
type done struct{}

func (done) options() []option { return nil }

func (done) run(*call) error { return nil }

// TestInterruptAfterTheWorkChangesNothing interrupts a resumed command that has already done its work.
func TestInterruptAfterTheWorkChangesNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "c.ckpt")
	forged(t, path, "copy", nil, struct{}{})
	file, err := journal.Read(path)
	proof.Must(t, err)
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	r := &call{ctx: ctx, point: job.Checkpoint{File: file}}
	if err := r.run(done{}); err != nil {
		t.Error(err)
	}
}

// TestCheckpointMovesWithItsFiles checks that a checkpoint can be moved together with the files beside it, and that the first line of output shows where rows
// go.
func TestCheckpointMovesWithItsFiles(t *testing.T) {
	_, a, connection := serveEmulator(t, emulator.Options{})
	emulatortest.Table(t, a, "orders", manyRows(1, 3))
	t.Setenv("AzureWebJobsStorage", connection)
	home := t.TempDir()
	places := []string{a.Table("orders").Address(), a.Table("more").Address()}
	point := job.Checkpoint{Command: "copy", New: filepath.Join(home, "c.ckpt")}
	_, err := point.Begin(copyOf(t, "--from", "orders", "--to", "more", "--mode", "fail", "--failed", filepath.Join(home, "lists", "f.jsonl")).givenFlags(), job.Facts{Places: places})
	if err == nil {
		err = errors.Join(point.File.Renew([]any{struct{}{}}), point.File.Close())
	}
	moved := filepath.Join(t.TempDir(), "moved")
	proof.Must(t, errors.Join(err, os.Mkdir(filepath.Join(home, "lists"), 0o700), os.Rename(home, moved)))
	output, err := user(t.Context(), nil, "copy", "--resume", filepath.Join(moved, "c.ckpt"))
	if err != nil || !strings.HasPrefix(output, "tablesweep: changes: "+places[1]+"\n") {
		t.Errorf("error %v, output %s", err, output)
	}
	if _, err := os.Stat(filepath.Join(moved, "lists", "f.jsonl")); err != nil {
		t.Error(err)
	}
}

// copyOf returns a call of the command copy with the arguments.
func copyOf(t *testing.T, args ...string) *call {
	t.Helper()
	var o copyOptions
	c := command("copy", "", &o)
	onlyOnce(c)
	proof.Must(t, c.ParseFlags(args))
	return &call{command: &o, name: "copy"}
}

// TestEveryOptionIsRecordedOrPerRun checks every option of a command that can be resumed: either checkpoints record it, or it applies to one run only.
func TestEveryOptionIsRecordedOrPerRun(t *testing.T) {
	t.Parallel()
	once := []string{"checkpoint", "resume", "progress", "json", "workers", "yes", "dry-run", "patience", "overwrite"}
	of := map[string]runnable{
		"copy": &copyOptions{}, "export": &copyOptions{}, "import": &copyOptions{}, "verify": &verifyOptions{}, "delete": &deleteOptions{}, "enqueue": &enqueueOptions{},
		"catalog import": &importOptions{},
	}
	commands := 0
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Flags().Lookup("resume") != nil {
			commands++
			path := strings.TrimPrefix(c.CommandPath(), "tablesweep ")
			if of[path] == nil {
				t.Fatalf("%s has other options", path)
			}
			for _, o := range of[path].options() {
				if (o.keep == perRun) != slices.Contains(once, o.name) {
					t.Errorf("%s: decide whether a checkpoint records --%s", path, o.name)
				}
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(rootCommand())
	if commands != len(of) {
		t.Errorf("%d commands can be resumed, want %d", commands, len(of))
	}
}
