package keysets_test

import (
	"math"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"tablesweep/internal/key"
	"tablesweep/internal/proof/keysets"
)

func rowsOf(t *testing.T, s keysets.Set, n int) []key.Key {
	t.Helper()
	rows, err := s.Rows(n)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func TestMadeUp(t *testing.T) {
	t.Parallel()
	sets, err := keysets.MadeUp()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sets {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			const n = 10_000
			rows := rowsOf(t, s, n)
			if len(rows) < n*8/10 || len(rows) > n {
				t.Errorf("got %d rows, want about %d", len(rows), n)
			}
			for i := 1; i < len(rows); i++ {
				if rows[i-1].Compare(rows[i]) >= 0 {
					t.Fatalf("row %q follows %q", rows[i], rows[i-1])
				}
			}
			if again := rowsOf(t, s, n); !slices.Equal(again, rows) {
				t.Error("a second call returns other rows")
			}
		})
	}
}

func TestReal(t *testing.T) {
	t.Parallel()
	goroot, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	samples := keysets.Real("")
	// The first set of Go's sources is the smallest.
	for _, s := range keysets.Real(strings.TrimSpace(string(goroot)))[:len(samples)+1] {
		rows := rowsOf(t, s, math.MaxInt)
		if len(rows) < 3000 {
			t.Errorf("%s has only %d rows", s.Name, len(rows))
		}
		for i, k := range rows {
			if i > 0 && rows[i-1].Compare(k) >= 0 {
				t.Fatalf("%s: row %q follows %q", s.Name, k, rows[i-1])
			}
			if text := k.Partition + k.Row; !utf8.ValidString(text) || strings.ContainsAny(text, "/\\#?\t") {
				t.Fatalf("%s: no table has a row %q", s.Name, k)
			}
		}
		if few := rowsOf(t, s, 100); len(few) != 100 || few[0] != rows[0] || few[99] == rows[99] {
			t.Errorf("%s: 100 rows are not spread over the set: %q", s.Name, few)
		}
	}
	if len(samples) != 13 {
		t.Errorf("%d samples, want 13", len(samples))
	}
	if _, err := keysets.Real(t.TempDir())[len(samples)].Rows(1); err == nil {
		t.Error("a directory without Go's sources gives a set")
	}
}
