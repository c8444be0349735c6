package keysets_test

import (
	"math"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"tablesweep/internal/proof"
	"tablesweep/internal/proof/keysets"
	"tablesweep/internal/proof/testsize"
)

// TestSets: each set has the stated number of sorted, distinct rows that a table may contain. Every call returns the same rows.
func TestSets(t *testing.T) {
	testsize.InFull(t)
	t.Parallel()
	goroot, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	proof.Must(t, err)
	sets, err := keysets.MadeUp()
	proof.Must(t, err)
	samples := len(keysets.Real(""))
	if samples != 13 {
		t.Errorf("found %d samples, want 13", samples)
	}
	// The first set of Go's sources is the smallest.
	for _, s := range append(sets, keysets.Real(strings.TrimSpace(string(goroot)))[:samples+1]...) {
		n, least := 10_000, 8000
		if s.Real {
			n, least = math.MaxInt, 3000
		}
		rows, err := s.Rows(n)
		if err != nil || len(rows) < least || len(rows) > n {
			t.Errorf("the set %s has %d rows, %v", s.Name, len(rows), err)
		}
		if again, _ := s.Rows(n); !s.Real && !slices.Equal(again, rows) {
			t.Errorf("the set %s returns other rows at a second call", s.Name)
		}
		if few, _ := s.Rows(100); s.Real && (len(few) != 100 || few[0] != rows[0] || few[99] == rows[99]) {
			t.Errorf("%s: 100 rows are not spread over the set: %q", s.Name, few)
		}
		for i, k := range rows {
			text := k.Partition + k.Row
			if i > 0 && rows[i-1].Compare(k) >= 0 || s.Real && (!utf8.ValidString(text) || strings.ContainsAny(text, "/\\#?\t")) {
				t.Fatalf("the set %s has a row that is invalid or out of order: %q", s.Name, k)
			}
		}
	}
	if _, err := keysets.Real(t.TempDir())[samples].Rows(1); err == nil {
		t.Error("a directory without Go's sources returned a set")
	}
}
