package job

import (
	"path/filepath"
	"testing"

	"tablesweep/internal/proof"
)

// A record lies in the directory that has its file, or the directory of the file, whatever the spelling.
func TestHomeOf(t *testing.T) {
	t.Parallel()
	abs, err := filepath.Abs(".")
	proof.Must(t, err)
	for path, want := range map[string]string{"c.ckpt": ".", "a/c.ckpt": "a", "backup/": ".", "/a/b/": "/a", ".": filepath.Dir(abs), "..": filepath.Dir(filepath.Dir(abs))} {
		if got := homeOf(path); got != want {
			t.Errorf("%s lies in %s, want %s", path, got, want)
		}
	}
}
