package sweep

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"tablesweep/internal/key"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/storage"
)

// TestSpill puts pages of many sizes aside, more than there is room for, and gets each
// back as it was, from a file that nobody else finds.
func TestSpill(t *testing.T) {
	testsize.WithoutRace(t)
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("TMP", dir)
	page := func(i int) []storage.Entity {
		rows := make([]storage.Entity, i*7%50+1)
		for j := range rows {
			rows[j] = storage.Entity{Key: key.Key{Partition: fmt.Sprint(i), Row: fmt.Sprintf("%03d '\"\U0001F600", j)}, Properties: []storage.Property{
				storage.Int64Property("N", int64(j)), storage.StringProperty("S", strings.Repeat("ü\n", i*997%4000)), storage.BinaryProperty("B", []byte{0, byte(j)}),
			}}
		}
		return rows
	}
	s := spill{most: 40 * spillBlock}
	var held []int
	pages := map[int]*spilled{}
	back := func(i int) {
		t.Helper()
		rows, err := s.load(pages[i])
		if err != nil || len(rows) != len(page(i)) {
			t.Fatalf("page %d: %d rows, %v", i, len(rows), err)
		}
		for j, e := range page(i) {
			if rows[j].Key != e.Key || !storage.Equal(rows[j], e) {
				t.Fatalf("page %d: row %v, want %v", i, rows[j], e)
			}
		}
	}
	for i := range testsize.Of(120, 300) {
		p := s.store(page(i))
		for ; p == nil && len(held) > 0; p = s.store(page(i)) { // full
			back(held[0])
			held = held[1:]
		}
		if p == nil {
			t.Fatalf("page %d finds no room in an empty file", i)
		}
		pages[i] = p
		held = append(held, i)
	}
	for _, i := range held {
		back(i)
	}
	if info, err := s.file.Stat(); err != nil || info.Size() > s.most || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v: want at most %d bytes, mode 0600", info, err, s.most)
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// TestSpillWithoutDisk keeps pages in memory if there can be no file.
func TestSpillWithoutDisk(t *testing.T) {
	t.Setenv("TMPDIR", "/nowhere/at/all")
	t.Setenv("TMP", "/nowhere/at/all")
	s := spill{most: spillMost}
	if p := s.store([]storage.Entity{{}}); p != nil || s.close() != nil {
		t.Errorf("got %+v, want nothing put aside", p)
	}
}
