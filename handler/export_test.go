package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tablesweep/internal/emulator"
	"tablesweep/internal/place"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/sweep/progress"
)

const smallFile = 20_000

// smallMain is this program, whose exports have files of 20 KB.
func smallMain() {
	os.Exit(run(context.Background(), rootCommand(), shared{meter: progress.New(os.Stderr), second: context.Background(), fileBytes: smallFile}))
}

// small runs a command in this process, as the program whose exports have files of 20 KB.
func small(t testing.TB, args ...string) {
	t.Helper()
	var told bytes.Buffer
	ctx := withShared(t.Context(), shared{meter: progress.New(&told), second: context.Background(), fileBytes: smallFile})
	if out, _, err := inProcess(ctx, nil, append(args, "--progress", "none")...); err != nil {
		t.Fatalf("%v: %v\n%s%s", args, err, out, &told)
	}
}

// exported returns the objects of an export but those that have times.
func exported(t testing.TB, from place.Objects) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := from.List(t.Context(), "", func(name string, bytes int64) error {
		text, err := from.Get(t.Context(), name, 0, bytes)
		if name != place.ClaimName && name != place.ManifestName {
			all[name] = string(text)
		}
		return err
	})
	proof.Must(t, err)
	return all
}

// TestExportedBytes: the files are the same whatever the workers and the shape of the service's pages.
func TestExportedBytes(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	em, a, connection := serveEmulator(t, emulator.Options{})
	emulatortest.Table(t, a, "source", manyRows(700, 9))
	var want map[string]string
	for i, workers := range []string{"1", "2", "64"} {
		if i == 2 {
			proof.Must(t, em.SetFaults("short-page p=0.5 rows=100; empty-page p=0.1"))
		}
		dir := filepath.Join(t.TempDir(), "orders")
		small(t, "export", "--from", "source", "--from-connection", connection, "--to", dir, "--workers", workers)
		got := exported(t, place.Directory(dir))
		if want == nil {
			want = got
		}
		sameExport(t, want, got)
	}
}

// TestFullDisk: an export that finds no room fails with the file's name, and goes on when there is room.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	_, a, connection := serveEmulator(t, emulator.Options{})
	emulatortest.Table(t, a, "source", manyRows(100, 10))
	dir := filepath.Join(t.TempDir(), "orders")
	run := func(limit string, args ...string) (string, error) {
		script := fmt.Sprintf("ulimit -f %s; exec smalltablesweep \"$@\" --progress none", limit)
		c := exec.Command("sh", append([]string{"-c", script, "sh"}, args...)...)
		c.Env = append(os.Environ(), "AzureWebJobsStorage="+connection)
		out, err := c.CombinedOutput()
		return string(out), err
	}
	out, err := run("4", "export", "--from", "source", "--to", dir, "--compress", "none")
	if err == nil || !strings.Contains(out, "file too large") || !strings.Contains(out, "tablesweep export --resume "+dir+" continues") {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err = run("unlimited", "export", "--resume", dir); err != nil || !strings.Contains(out, "exported 1000 rows") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestReadmeRestores runs the lines by which README backs a table up and restores it.
func TestReadmeRestores(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../README.md")
	proof.Must(t, err)
	_, a, connection := serveEmulator(t, emulator.Options{})
	emulatortest.Table(t, a, "orders", manyRows(20, 10))
	dir := t.TempDir()
	ran := 0
	for line := range bytes.Lines(text) {
		command, _, _ := bytes.Cut(line, []byte("#"))
		fields := strings.Fields(string(command))
		if len(fields) < 2 || fields[0] != "tablesweep" || !bytes.Contains(line, []byte("backup/orders")) || !bytes.HasPrefix(line, []byte("    ")) {
			continue
		}
		ran++
		c := exec.Command(fields[0], fields[1:]...)
		c.Dir, c.Env = dir, append(os.Environ(), "AzureWebJobsStorage="+connection)
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%s%v\n%s", line, err, out)
		}
	}
	if ran != 3 {
		t.Errorf("README has %d lines about backup/orders, want 3", ran)
	}
}
