package console_test

import (
	"os"
	"testing"

	"tablesweep/internal/app/console"
)

// TestPageIsSmall: all files together are small. On a phone's slow connection of 50 KB/s, all views load within a second.
func TestPageIsSmall(t *testing.T) {
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
	t.Logf("%d files have %d bytes, %d compressed", len(entries), plain, packed)
	if len(entries) < 10 || plain > 125_000 || packed > 47_000 {
		t.Errorf("%d files have %d bytes, %d compressed; want at most 125,000, and 47,000 compressed", len(entries), plain, packed)
	}
}
