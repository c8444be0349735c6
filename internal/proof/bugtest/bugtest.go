// Package bugtest plants bugs, so that tests can prove that other tests find them.
package bugtest

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tablesweep/internal/proof"
)

// Bug is a change to the source that makes it wrong. It is made in copies that only the test's build sees, so that the
// app has neither the bugs nor switches for them. Who changes a piece of code that a bug names changes it there, too.
type Bug struct {
	Name  string
	Edits []Edit
}

// New returns a bug.
func New(name string, edits ...Edit) Bug { return Bug{name, edits} }

// Edit is a change to one file.
type Edit struct{ file, old, replacement string }

// In returns the edit that replaces a piece of a file, which must be there exactly once. The
// file's path begins at the module's root.
func In(file, old, replacement string) Edit { return Edit{file, old, replacement} }

// Fit fails the test unless the source still has each piece that the bug changes. It returns the changed files' content.
func (b Bug) Fit(t *testing.T, root string) (changed map[string]string) {
	t.Helper()
	changed = map[string]string{}
	for _, e := range b.Edits {
		content, ok := changed[e.file]
		if !ok {
			original, err := os.ReadFile(filepath.Join(root, e.file))
			proof.Must(t, err)
			content = string(original)
		}
		if n := strings.Count(content, e.old); n != 1 {
			t.Fatalf("%s: %s has %d times %q; adapt the bug to the source", b.Name, e.file, n, e.old)
		}
		changed[e.file] = strings.Replace(content, e.old, e.replacement, 1)
	}
	return changed
}

// Build builds the tests of the package in the directory, which begins at the module's
// root, with the bug. It returns the path of the executable.
func (b Bug) Build(t *testing.T, root, directory string) string {
	t.Helper()
	dir := t.TempDir()
	changed := b.Fit(t, root)
	overlay := map[string]map[string]string{"Replace": {}}
	for file, content := range changed {
		path := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		proof.Must(t, os.WriteFile(path, []byte(content), 0o600))
		overlay["Replace"][filepath.Join(root, file)] = path
	}
	list, err := json.Marshal(overlay)
	proof.Must(t, err)
	listFile, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "bug.test")
	proof.Must(t, os.WriteFile(listFile, list, 0o600))
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-ldflags=-s -w", "-overlay="+listFile, "-o", binary, "./"+directory)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build with the bug: %v\n%s", err, out)
	}
	return binary
}
