package key_test

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"tablesweep/internal/key"
	"tablesweep/internal/proof/testsize"
)

// alphabet contains characters from both sides of each point where the UTF-16 order differs from the order of code points.
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

// compareUnits implements the definition of the order: it encodes both texts in UTF-16, and compares them unit by unit.
func compareUnits(a, b string) int {
	return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
}

func TestCompareEqualsUTF16Order(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range testsize.Of(20_000, 200_000) {
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

// TestSuccessorBoundsThePrefix checks that a key starts with a prefix if and only if it lies in [prefix, Successor(prefix)).
func TestSuccessorBoundsThePrefix(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	for range testsize.Of(20_000, 200_000) {
		prefix, k := randomKey(r), randomKey(r)
		next, ok := key.Successor(prefix)
		inside := !key.Less(k, prefix) && (!ok || key.Less(k, next))
		if !ok && strings.Trim(prefix, "\uffff") != "" {
			t.Fatalf("Successor(%q) returns no key", prefix)
		}
		if inside != strings.HasPrefix(k, prefix) {
			t.Fatalf("prefix %q, successor %q: the key %q lies between them: %v", prefix, next, k, inside)
		}
	}
}

// TestRanks checks that ranks number all characters in the service's order.
func TestRanks(t *testing.T) {
	t.Parallel()
	before := ""
	for rank := range rune(utf8.MaxRune + 1 - 0x800) {
		char := key.AtRank(rank)
		if key.Rank(char) != rank || !utf8.ValidRune(char) {
			t.Fatalf("the character with the rank %#x is %#x, but its rank is %#x", rank, char, key.Rank(char))
		}
		if rank > 0 && !key.Less(before, string(char)) {
			t.Fatalf("the character %#x does not sort after %q", char, before)
		}
		before = string(char)
	}
}

// TestSidesOfRanges checks that, in table order, the keys before a range are followed by the keys in the range, and these by
// the keys after the range.
func TestSidesOfRanges(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 3))
	text := func() string { return strconv.Itoa(r.IntN(6)) }
	bound := func() *key.Bound {
		if r.IntN(4) == 0 {
			return nil
		}
		return &key.Bound{Key: text(), Open: r.IntN(2) == 0}
	}
	within := func(v string, low, high *key.Bound) bool {
		return (low == nil || v > low.Key || v == low.Key && !low.Open) && (high == nil || v < high.Key || v == high.Key && !high.Open)
	}
	for range 5000 {
		x := key.Range{Low: bound(), High: bound()}
		if r.IntN(2) == 0 {
			p := text()
			x.Partition = &p
		}
		last := -1
		for i := range 36 {
			k := key.Key{Partition: strconv.Itoa(i / 6), Row: strconv.Itoa(i % 6)}
			in := within(k.Partition, x.Low, x.High)
			if x.Partition != nil {
				in = k.Partition == *x.Partition && within(k.Row, x.Low, x.High)
			}
			if x.Contains(k) != in {
				t.Fatalf("the range %+v contains %q: %v", x, k, !in)
			}
			side := x.Side(k)
			if side < last {
				t.Fatalf("range %+v: the key %q is on side %d, but the previous key on side %d", x, k, side, last)
			}
			last = side
		}
	}
}

// TestFormatOfTokens checks the form of tokens in messages and checkpoints. Tokens of earlier versions do not contain the last
// key of the earlier pages.
func TestFormatOfTokens(t *testing.T) {
	t.Parallel()
	for stored, want := range map[string]key.Token{
		`{"p":"x"}`:         {Partition: "x"},
		`{"p":"x","r":"y"}`: {Partition: "x", Row: "y"},
		`{"p":"x","r":"y","a":{"Partition":"p","Row":"r"}}`: {Partition: "x", Row: "y", After: &key.Key{Partition: "p", Row: "r"}},
	} {
		var got key.Token
		if err := json.Unmarshal([]byte(stored), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("the token %s is read as %+v, error %v; want %+v", stored, got, err, want)
		}
		if text, err := json.Marshal(want); err != nil || string(text) != stored {
			t.Errorf("the token %+v is written as %s, error %v; want %s", want, text, err, stored)
		}
	}
}

// TestBoundsAnd checks that the intersection of two bounds contains exactly the keys that both bounds contain.
func TestBoundsAnd(t *testing.T) {
	t.Parallel()
	texts := []string{"", "a", "ab", "b", "\uffff"}
	var all []key.Bounds
	for _, prefix := range texts {
		for _, after := range texts {
			for _, before := range texts {
				all = append(all, key.Bounds{Prefix: prefix, After: after, Before: before})
			}
		}
	}
	for _, a := range all {
		for _, b := range all {
			both := a.Intersect(b).Range()
			for _, p := range append(texts, "a\x00", "abc", "bb", "\U0001F600") {
				k := key.Key{Partition: p}
				if got, want := both.Contains(k), a.Range().Contains(k) && b.Range().Contains(k); got != want {
					t.Fatalf("the intersection of %+v and %+v contains %q: %v, want %v", a, b, p, got, want)
				}
			}
		}
	}
}
