package console_test

import (
	"os"
	"testing"

	"tablesweep/internal/app/console"
)

// TestWeight: all files together stay small. On a phone's slow connection of 50 KB/s, all views load within a second.
func TestWeight(t *testing.T) {
	entries, err := os.ReadDir("page")
	if err != nil {
		t.Fatal(err)
	}
	plain, packed := 0, 0
	for _, e := range entries {
		f, found := console.Named(e.Name())
		if !found {
			t.Errorf("%s is not served", e.Name())
		}
		plain += len(f.Content)
		packed += len(f.Packed)
	}
	t.Logf("%d files: %d bytes, %d compressed", len(entries), plain, packed)
	if len(entries) < 10 || plain > 125_000 || packed > 47_000 {
		t.Errorf("%d files: %d bytes, %d compressed; want 125,000 and 47,000 at most", len(entries), plain, packed)
	}
}
