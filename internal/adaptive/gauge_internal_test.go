package adaptive

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/key"
)

func TestOrderIsKeyOrder(t *testing.T) {
	t.Parallel()
	before := rune(-1)
	for place := range rune(0x110000 - 0x800) {
		char := inOrder(place)
		if order(char) != place || !utf8.ValidRune(char) {
			t.Fatalf("place %#x holds %#x, whose place is %#x", place, char, order(char))
		}
		if before >= 0 && !key.Less(string(before), string(char)) {
			t.Fatalf("%#x comes before %#x", before, char)
		}
		before = char
	}
}

func TestAlphabetJSON(t *testing.T) {
	t.Parallel()
	want := alphabet{{'"', 0.5}, {'a', 12}, {0x1F600, 3.3}, {0xE000, 100}}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got alphabet
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(letter{})); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", text, diff)
	}
}

func TestLearn(t *testing.T) {
	t.Parallel()
	var keys []string
	for i := range 256 {
		keys = append(keys, fmt.Sprintf("id-%02x", i))
	}
	a := alphabet(nil).learn(keys)
	letters := ""
	for _, l := range a {
		if l.weight > 1 {
			letters += string(l.char)
		}
	}
	if letters != "0123456789abcdef" {
		t.Errorf("learned %q of hexadecimal keys: %v", letters, a)
	}
}

// A gauge of evenly spread keys tells how many follow, and where.
func TestGauge(t *testing.T) {
	t.Parallel()
	var digits alphabet
	for char := '0'; char <= '9'; char++ {
		digits = append(digits, letter{char, 1e6})
	}
	end := "90000"
	for _, tt := range []struct {
		name       string
		from, here string
		end        *string
		want       float64 // pages, where (from, here] is one
	}{
		{"to the end", "10000", "10100", &end, 799},
		{"close to it", "89800", "89900", &end, 1},
		{"end shares a prefix", "89000", "89100", &end, 9},
		{"no end", "10000", "10100", nil, 899},
		{"past the end of a level", "19800", "19900", &end, 701},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := newGauge(newRuler(digits, tt.here), tt.from, tt.here, 1, tt.end)
			if math.Abs(g.total-tt.want) > 0.01*tt.want {
				t.Errorf("got %v pages, want %v", g.total, tt.want)
			}
			if k, ok := g.at(g.total / 2); !ok {
				t.Error("nothing lies half-way")
			} else if half := newGauge(newRuler(digits, tt.here), tt.from, tt.here, 1, &k); math.Abs(half.total-tt.want/2) > 0.1*tt.want+0.1 {
				t.Errorf("half-way lies %q, after %v pages", k, half.total)
			}
		})
	}
}

// Whatever the keys, a place lies strictly between here and the end, in valid
// UTF-8, and no total is negative or not a number.
func TestGaugeOfOddKeys(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(8, 8))
	chars := []rune{0, ' ', '-', '0', '5', 'a', 'z', 0x7F, 'é', 0xD7FF, 0x10000, 0x10FFFF, 0xE000, 0xFFFD, 0xFFFF}
	odd := func() string {
		var k []rune
		for range r.IntN(6) {
			k = append(k, chars[r.IntN(len(chars))])
		}
		return string(k)
	}
	for range 100_000 {
		from, here, last := odd(), odd(), odd()
		if !key.Less(from, here) {
			continue
		}
		end := &last
		if !key.Less(here, last) {
			end = nil
		}
		g := newGauge(newRuler(alphabet(nil).learn([]string{from, here}), here), from, here, 1, end)
		if !(g.total >= 0) {
			t.Fatalf("from %q, here %q, end %q: %v pages", from, here, last, g.total)
		}
		k, ok := g.at(g.total * r.Float64())
		if ok && (!key.Less(here, k) || end != nil && !key.Less(k, *end) || !utf8.ValidString(k)) {
			t.Fatalf("from %q, here %q, end %v: a cut at %q", from, here, end, k)
		}
	}
}

func TestBelief(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		prior    belief
		observed []belief
		pages    float64
		sigma    float64
	}{
		{"nothing observed", believe(10, 1), nil, 10, 1},
		{"as sure", believe(10, 1), []belief{believe(1000, 1)}, 100, math.Sqrt(0.5)},
		{"the belief is sure", believe(10, 0.01), []belief{believe(1000, 1)}, 10, 0.01},
		{"equal rivals", believe(10, 1), []belief{believe(1, 1), believe(100, 1)}, (math.Sqrt(10) + math.Sqrt(1000)) / 2, 1.35},
		{"a far-off rival", believe(10, 0.1), []belief{believe(10, 0.1), believe(1e9, 0.1)}, 10, 0.07},
		{"too many", believe(1e9, 1), []belief{believe(1e9, 1)}, maxPages, math.Sqrt(0.5)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			pages, sigma := tt.prior.update(tt.observed)
			if math.Abs(pages-tt.pages) > 0.01*tt.pages || math.Abs(sigma-tt.sigma) > 0.02 {
				t.Errorf("got %v pages, sigma %v, want %v, %v", pages, sigma, tt.pages, tt.sigma)
			}
		})
	}
}
