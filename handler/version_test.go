package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"tablesweep/internal/proof"
)

// runRoot runs a command of the program and returns what it prints on stdout.
func runRoot(t *testing.T, args ...string) string {
	t.Helper()
	out, _, err := inProcess(t.Context(), nil, args...)
	proof.Must(t, err)
	return out
}

func TestVersion(t *testing.T) {
	t.Cleanup(func() { version = "" })
	version = "v1.2.3"
	if got := runRoot(t, "version"); !strings.HasPrefix(got, "tablesweep v1.2.3 ") || !strings.Contains(got, runtime.Version()+" "+runtime.GOOS+"/"+runtime.GOARCH) {
		t.Errorf("version prints %q", got)
	}
	var b build
	if err := json.Unmarshal([]byte(runRoot(t, "version", "--json")), &b); err != nil || b.Version != "v1.2.3" || b.Go != runtime.Version() {
		t.Errorf("error %v, version %+v", err, b)
	}
}

// TestManPagesAndCompletions: each command in the help has a man page, and shells complete its name.
func TestManPagesAndCompletions(t *testing.T) {
	dir := t.TempDir()
	runRoot(t, "man", dir)
	for _, c := range rootCommand().Commands() {
		if c.Hidden {
			continue
		}
		page, err := os.ReadFile(filepath.Join(dir, "tablesweep-"+c.Name()+".1"))
		if err != nil || !strings.Contains(string(page), c.Short) {
			t.Errorf("command %s: %v, page of %d bytes", c.Name(), err, len(page))
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if got := runRoot(t, "completion", shell); !strings.Contains(got, "tablesweep") {
			t.Errorf("completion %s prints %q", shell, got)
		}
	}
	if got := runRoot(t, "__complete", "vers"); !strings.Contains(got, "version") {
		t.Errorf("completing vers gives %q", got)
	}
}
