package job

import (
	"path/filepath"
	"testing"

	"tablesweep/internal/proof"
)

// A checkpoint's paths are relative to the same directory, whether the user names the checkpoint's file or its directory, in any spelling.
func TestHomeOf(t *testing.T) {
	t.Parallel()
	abs, err := filepath.Abs(".")
	proof.Must(t, err)
	for path, want := range map[string]string{"c.ckpt": ".", "a/c.ckpt": "a", "backup/": ".", "/a/b/": "/a", ".": filepath.Dir(abs), "..": filepath.Dir(filepath.Dir(abs))} {
		if got := homeOf(path); got != want {
			t.Errorf("the home of %s is %s, want %s", path, got, want)
		}
	}
}
