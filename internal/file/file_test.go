package file_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tablesweep/internal/file"
	"tablesweep/internal/proof"
)

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

// put writes a file as other programs do.
func put(t *testing.T, path, content string) {
	t.Helper()
	proof.Must(t, os.WriteFile(path, []byte(content), 0o600))
}

// names returns the names in a directory.
func names(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	entries, err := os.ReadDir(dir)
	proof.Must(t, err)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

// A file gets its name when it is complete, and never replaces another file. Its directory may be a link.
func TestCreate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Skip(err)
	}
	p := file.PathIn(link, "data/one")
	broken := errors.New("broken")
	err := p.Create(func(w io.Writer) error {
		if of, ok := file.Temporary(names(t, filepath.Join(dir, "data"))); !ok || of != "one" {
			t.Errorf("the directory has %q during the write, want a temporary file", names(t, filepath.Join(dir, "data")))
		}
		return broken
	})
	if !errors.Is(err, broken) || names(t, filepath.Join(dir, "data")) != "" {
		t.Errorf("got error %v, and the directory has %s", err, names(t, filepath.Join(dir, "data")))
	}
	err = p.Create(func(w io.Writer) error { // the file cannot be written, as on a full disk
		w.(*os.File).Close()
		_, err := w.Write([]byte("1"))
		return err
	})
	if want := p.String() + ": " + os.ErrClosed.Error(); !errors.Is(err, os.ErrClosed) || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), ".part") {
		t.Errorf("got %v, want %s", err, want)
	}
	other := file.PathIn(link, "data/other")
	err = other.Create(func(io.Writer) error {
		put(t, filepath.Join(dir, "data", "other"), "precious") // another process has written this file
		return nil
	})
	if content, readErr := other.Read(); !errors.Is(err, fs.ErrExist) || string(content) != "precious" || readErr != nil {
		t.Errorf("got error %v; the file has %q, error %v", err, content, readErr)
	}
	proof.Must(t, errors.Join(other.Remove(), p.Create(text("1"))))
	if err := p.Create(text("2")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("got %v", err)
	}
	if content, err := p.Read(); string(content) != "1" || err != nil {
		t.Errorf("the file contains %q, error %v, want 1", content, err)
	}
	proof.Must(t, p.Replace([]byte("3")))
	if content, err := p.Read(); string(content) != "3" || err != nil || names(t, filepath.Join(dir, "data")) != "one" {
		t.Errorf("the file contains %q, error %v, want 3; the directory has %s", content, err, names(t, filepath.Join(dir, "data")))
	}
	if err := errors.Join(p.Remove(), p.Remove()); err != nil || names(t, filepath.Join(dir, "data")) != "" {
		t.Error(err)
	}
	if _, err := p.Read(); !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), filepath.Join(link, "data", "one")+": ") {
		t.Errorf("got %v", err)
	}
}

// Links and directories are refused as files, wherever links lead. The targets of links do not change.
func TestLinksAreRefused(t *testing.T) {
	t.Parallel()
	dir, elsewhere := t.TempDir(), t.TempDir()
	put(t, filepath.Join(dir, "own"), "own")
	put(t, filepath.Join(elsewhere, "victim"), "precious")
	for link, to := range map[string]string{
		"within": "own", "out": filepath.Join(elsewhere, "victim"), "nowhere": filepath.Join(elsewhere, "new"), "data": elsewhere, "round": "round",
	} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Skip(err)
		}
	}
	for _, name := range []string{"within", "out", "nowhere", "round", "data", "data/victim", "data/new"} {
		for _, p := range []file.Path{file.PathIn(dir, name), file.PathAt(filepath.Join(dir, name))} {
			if strings.Contains(name, "/") && p == file.PathAt(filepath.Join(dir, name)) {
				continue // the user has named this directory, so it may be a link
			}
			_, openErr := p.Open(os.O_RDONLY)
			_, makeErr := p.Open(os.O_RDWR | os.O_CREATE)
			_, statErr := p.Stat()
			for i, err := range []error{openErr, makeErr, statErr, p.Create(text("x")), p.Replace([]byte("x"))} {
				if err == nil {
					t.Errorf("%s: call %d followed a link", name, i)
				}
			}
			if strings.Contains(name, "/") && p.Remove() == nil {
				t.Errorf("%s was removed", name)
			}
		}
	}
	if content, err := os.ReadFile(filepath.Join(elsewhere, "victim")); string(content) != "precious" || err != nil || names(t, elsewhere) != "victim" {
		t.Errorf("the linked file contains %q, error %v; its directory has %s", content, err, names(t, elsewhere))
	}
	if content, err := os.ReadFile(filepath.Join(dir, "own")); string(content) != "own" || err != nil {
		t.Errorf("the directory's own file contains %q, error %v", content, err)
	}
}

// A name must lead to a file in its directory on every system, and must not be a device on Windows.
func TestNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{
		"", ".", "..", "../x", "/x", "a/../../x", "a//b", `a\b`, `..\x`, "C:", "C:x", "c:/x", "x:stream", "x.", "x ", "a./b",
		"CON", "con", "aux.jsonl", "data/AUX.jsonl.zst", "nul/x", "COM1", "lpt9.txt", "COM²", "CONIN$", "con .txt", "prn:",
	} {
		if err := file.PathIn(dir, name).Create(text("x")); !errors.Is(err, file.ErrName) {
			t.Errorf("%q: got error %v", name, err)
		}
	}
	for _, name := range []string{"console", "com10", "auxiliary.jsonl", "a.con", "data/000000-0123456789abcdef.jsonl.zst", "nu", ".x"} {
		if err := file.PathIn(dir, name).Create(text("x")); err != nil {
			t.Errorf("%q: got error %v, want none", name, err)
		}
	}
}

// Clear removes the incomplete files of killed processes, and no other files.
func TestClear(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"c", "c.part", "c.abcdefghijklmnop.part", "cc.abcdefghijklmnop.part", "c.abcdefghijklmnop", "c.234567abcdefghij.part", "c.notes.part"} {
		put(t, filepath.Join(dir, name), "")
	}
	if err := file.PathAt(filepath.Join(dir, "c")).Clear(); err != nil || names(t, dir) != "c c.abcdefghijklmnop c.notes.part c.part cc.abcdefghijklmnop.part" {
		t.Errorf("got error %v; the directory has %s", err, names(t, dir))
	}
}

// OpenPipe opens regular files as the system does. A missing file is an error or is created, according to the flags.
func TestOpenPipeOpensFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "list")
	if _, err := file.OpenPipe(t.Context(), path, os.O_RDONLY, 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	put(t, path, "x")
	ctx, interrupt := context.WithCancel(t.Context())
	f, err := file.OpenPipe(ctx, path, os.O_RDONLY, 0)
	proof.Must(t, err)
	defer f.Close()
	interrupt()
	if content, err := io.ReadAll(f); string(content) != "x" || err != nil {
		t.Errorf("the file contains %q, error %v, want x", content, err)
	}
}
