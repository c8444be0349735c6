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

	"tablesweep/internal/job/progress"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/place"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
)

const smallFile = 20_000

// smallMain runs this program with files of 20 KB in exports.
func smallMain() {
	os.Exit(run(context.Background(), rootCommand(), shared{meter: progress.New(os.Stderr), second: context.Background(), fileBytes: smallFile}))
}

// exported returns the objects of an export, except those that contain times.
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

// TestExportResumesAfterFullDisk checks that an export fails with the file's name if the disk is full, and that a resume continues it when the disk has
// space.
func TestExportResumesAfterFullDisk(t *testing.T) {
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
		t.Fatalf("error %v; output:\n%s", err, out)
	}
	if out, err = run("unlimited", "export", "--resume", dir); err != nil || !strings.Contains(out, "exported 1000 rows") {
		t.Errorf("error %v; output:\n%s", err, out)
	}
}

// TestReadmeBackupIsRestored runs README's lines that back a table up and restore it.
func TestReadmeBackupIsRestored(t *testing.T) {
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
			t.Errorf("the line %serror %v; output:\n%s", line, err, out)
		}
	}
	if ran != 3 {
		t.Errorf("README has %d lines about backup/orders, want 3", ran)
	}
}
