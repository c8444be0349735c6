// Package bugtest puts bugs into copies of the source, so that tests can prove that other tests find these bugs.
package bugtest

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tablesweep/internal/proof"
	"tablesweep/internal/proof/testsize"
)

// Bug is a change that makes the source wrong. Only copies for the test's build are changed, so the app contains neither the bugs nor switches for them. If
// you change code that a bug names, change the bug as well.
type Bug struct {
	Name   string
	Test   string // the test that must find the bug
	Prints string // part of the test's output when it finds the bug; "" for any failure
	Args   string // additional arguments of the test, separated by spaces
	Edits  []Edit
}

// Edit is a change to one file.
type Edit struct{ file, old, replacement string }

// In returns the edit that replaces a text in a file. After the edits before this one, the file must contain the text exactly once. The file's path is
// relative to the module's root. In the replacement, WRONG becomes a condition that is true if the bug is enabled.
func In(file, old, replacement string) Edit { return Edit{file, old, replacement} }

// variable is the environment variable that names the enabled bug.
const variable = "TABLESWEEP_BUG"

// Find proves that the tests of a package can fail: each bug's test must find the bug. The package's directory is relative to the module's root. All bugs are
// in one build. The tests run with args and in their small sizes. This takes long, so only scripts/test.sh --long does it. Otherwise, Find only checks that
// the source still contains each text that a bug changes.
func Find(t *testing.T, directory string, bugs []Bug, args ...string) {
	t.Helper()
	root := strings.Repeat("../", strings.Count(directory, "/")+1)
	root, err := filepath.Abs(root)
	proof.Must(t, err)
	changed := change(t, root, bugs)
	if !testsize.Long() {
		t.Skip("skipped, because it builds the tests with bugs; scripts/test.sh --long runs it")
	}
	binary := build(t, root, directory, changed)
	for _, b := range bugs {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), binary, slices.Concat([]string{"-test.run=^" + b.Test + "$", "-test.timeout=0"}, args, strings.Fields(b.Args))...)
			cmd.Env = append(os.Environ(), variable+"="+b.Name, "TABLESWEEP_TESTS=")
			out, err := cmd.CombinedOutput()
			if err == nil {
				t.Fatalf("%s does not find the bug", b.Test)
			}
			for _, want := range []string{"--- FAIL: " + b.Test, b.Prints} {
				if !strings.Contains(string(out), want) {
					t.Fatalf("%s failed for another reason; want %q in its output:\n%s", b.Test, want, out)
				}
			}
			t.Logf("… %s", out[max(0, len(out)-300):]) // the output may name a seed
		})
	}
}

// change returns the content of each file that the bugs change.
func change(t *testing.T, root string, bugs []Bug) map[string]string {
	t.Helper()
	changed := map[string]string{}
	for _, b := range bugs {
		on := fmt.Sprintf("(switches.Getenv(%q) == %q)", variable, b.Name)
		for _, e := range b.Edits {
			content, ok := changed[e.file]
			if !ok {
				original, err := os.ReadFile(filepath.Join(root, e.file))
				proof.Must(t, err)
				content = string(original)
			}
			if n := strings.Count(content, e.old); n != 1 {
				t.Errorf("bug %s: %s contains the text %d times, want once: %q; adapt the bug to the source", b.Name, e.file, n, e.old)
			}
			changed[e.file] = strings.Replace(content, e.old, strings.ReplaceAll(e.replacement, "WRONG", on), 1)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
	for file, content := range changed {
		if strings.Contains(content, "(switches.Getenv(") {
			changed[file] = strings.Replace(content, "\nimport ", "\nimport switches \"os\"\nimport ", 1)
		}
	}
	return changed
}

// build builds the tests of the package with the changed files, and returns the path of the executable.
func build(t *testing.T, root, directory string, changed map[string]string) string {
	t.Helper()
	dir := t.TempDir()
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
		t.Fatalf("the build with the bugs failed: %v\n%s", err, out)
	}
	return binary
}
