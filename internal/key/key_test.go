package key_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"tablesweep/internal/key"
)

// alphabet holds characters at every seam of the UTF-16 order.
var alphabet = []rune{
	0, ' ', '!', '\'', '%', '+', '0', 'A', 'a', 'é', 0x7FF, 0x800, 0xD7FE, 0xD7FF,
	0x10000, 0x10001, '😀', 0x10FFFE, 0x10FFFF, 0xE000, 0xE001, 0xFFFD, 0xFFFE, 0xFFFF,
}

func randomKey(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(5) {
		b.WriteRune(alphabet[r.IntN(len(alphabet))])
	}
	return b.String()
}

// compareUnits is the definition: encode both and compare unit by unit.
func compareUnits(a, b string) int {
	return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
}

func TestCompareEqualsUTF16Order(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 200_000 {
		a, b := randomKey(r), randomKey(r)
		if got, want := key.Compare(a, b), compareUnits(a, b); got != want {
			t.Fatalf("Compare(%q, %q) = %d, want %d", a, b, got, want)
		}
		if got, want := key.Units(a), len(utf16.Encode([]rune(a))); got != want {
			t.Fatalf("Units(%q) = %d, want %d", a, got, want)
		}
	}
	if !key.Less("😀", "\uE000") {
		t.Error("an emoji must sort before U+E000")
	}
}

func TestKeyComparesPartitionFirst(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	for range 20_000 {
		a := key.Key{Partition: randomKey(r), Row: randomKey(r)}
		b := key.Key{Partition: randomKey(r), Row: randomKey(r)}
		want := cmp.Or(compareUnits(a.Partition, b.Partition), compareUnits(a.Row, b.Row))
		if got := a.Compare(b); got != want {
			t.Fatalf("%q.Compare(%q) = %d, want %d", a, b, got, want)
		}
	}
}

func TestSuccessor(t *testing.T) {
	for _, tt := range []struct {
		prefix, want string
		ok           bool
	}{
		{"", "", false},
		{"D", "E", true},
		{"a\uffff", "b", true},
		{"\uffff\uffff", "", false},
		{"x\ud7ff", "x\U00010000", true},
		{"x\U0010ffff", "x\ue000", true},
		{"😀", "😁", true},
	} {
		if got, ok := key.Successor(tt.prefix); got != tt.want || ok != tt.ok {
			t.Errorf("Successor(%q) = %q, %v, want %q, %v", tt.prefix, got, ok, tt.want, tt.ok)
		}
	}
}

// A key starts with the prefix exactly when it lies in [prefix, Successor(prefix)).
func TestSuccessorBoundsThePrefix(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	for range 200_000 {
		prefix, k := randomKey(r), randomKey(r)
		next, ok := key.Successor(prefix)
		inside := !key.Less(k, prefix) && (!ok || key.Less(k, next))
		if !ok && strings.Trim(prefix, "\uffff") != "" {
			t.Fatalf("Successor(%q) found none", prefix)
		}
		if inside != strings.HasPrefix(k, prefix) {
			t.Fatalf("prefix %q, successor %q: key %q inside = %v", prefix, next, k, inside)
		}
	}
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	chars := []rune{0, 'a', 0x7F, 0xD7FF, 0x10000, 0x1F600, 0x10FFFF, 0xE000, 0xFFFF} // in the service's order
	for i, c := range chars {
		if got := key.AtRank(key.Rank(c)); got != c {
			t.Errorf("U+%04X comes back as U+%04X", c, got)
		}
		if i > 0 && key.Rank(chars[i-1]) >= key.Rank(c) {
			t.Errorf("U+%04X does not lie behind U+%04X", c, chars[i-1])
		}
	}
}
