package adaptive

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"tablesweep/internal/key"
	"tablesweep/internal/proof/testsize"
)

// measure estimates the keys after the pages that a strand has read from start on.
func measure(start string, end *string, pages ...[]string) *gauge {
	var t trail
	var f forks
	var a alphabet
	var g *gauge
	for _, keys := range pages {
		a, f = a.afterPage(keys), f.afterPage(keys)
		g = newGauge(a, keys[len(keys)-1], end)
		t = t.afterPage(g, keys, 1, start)
	}
	g.survey(t, f)
	return g
}

// numbers returns the numbers from first to last in a format.
func numbers(format string, first, last int) []string {
	var keys []string
	for i := first; i <= last; i++ {
		keys = append(keys, fmt.Sprintf(format, i))
	}
	return keys
}

// The gauge assumes that the density of evenly spread keys continues, and finds the key in the middle of the estimated pages.
func TestGauge(t *testing.T) {
	t.Parallel()
	end := func(k string) *string { return &k }
	for _, tt := range []struct {
		name  string
		start string
		end   *string
		pages [][]string
		want  float64
	}{
		{"to the end", "10000", end("90000"), [][]string{numbers("%05d", 10000, 19999), numbers("%05d", 20000, 29999)}, 6},
		{"a near end", "10000", end("15000"), [][]string{numbers("%05d", 10000, 10999), numbers("%05d", 11000, 11999)}, 3},
		{"the end shares a prefix", "a/10000", end("a/90000"), [][]string{numbers("a/%05d", 10000, 29999)}, 3},
		{"a level was passed", "00000", end("99999"), [][]string{numbers("%05d", 0, 19999), numbers("%05d", 20000, 39999)}, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := measure(tt.start, tt.end, tt.pages...)
			if g.total < tt.want/3 || g.total > tt.want*3 {
				t.Errorf("estimated %v pages, want about %v", g.total, tt.want)
			}
			half, ok := g.keyAfter(g.total / 2)
			if !ok {
				t.Fatal("there is no key in the middle")
			}
			if rest := measure(tt.start, &half, tt.pages...); math.Abs(rest.total-g.total/2) > 0.1*g.total+0.5 {
				t.Errorf("the key in the middle of %v pages is %q; the estimate up to it is %v pages", g.total, half, rest.total)
			}
		})
	}
}

// A trail is the same wherever its pages ended. The exception is a separator in the last key, which takes nearly all of its level.
func TestTrail(t *testing.T) {
	t.Parallel()
	var keys []string
	for _, name := range []string{"usr/bin/", "usr/lib/x/", "usr/lib/y/", "var/"} {
		keys = append(keys, numbers(name+"%03d", 0, 249)...)
	}
	last := keys[len(keys)-1]
	a := alphabet(nil).afterPage(keys)
	whole := trail{}.afterPage(newGauge(a, last, nil), keys, 1, "")
	total := 0.0
	for _, l := range whole.Levels {
		total += l.pages
	}
	if math.Abs(total-1) > 1e-9 {
		t.Errorf("the page counts as %v pages", total)
	}
	for _, n := range []int{1, 100, 250, 333, 500, 999} {
		pieces := trail{}.afterPage(newGauge(a, keys[n-1], nil), keys[:n], float64(n)/1000, "")
		pieces = pieces.afterPage(newGauge(a, last, nil), keys[n:], float64(1000-n)/1000, "")
		if diff := cmp.Diff(whole, pieces, cmp.AllowUnexported(level{}), cmpopts.EquateApprox(0, 0.01)); diff != "" {
			t.Errorf("with pages that end after %d keys, the trail differs (-one page +several pages):\n%s", n, diff)
		}
	}
	piece := whole.inherit("var/9")
	if !piece.isMeasured(0) || piece.Here != nil || piece.levelAt(0).pages >= whole.levelAt(0).pages {
		t.Errorf("the piece that starts at var/9 inherits %+v", piece)
	}
}

// For any keys, a cut lies strictly between the last key and the end, and is valid UTF-8. The estimate is never negative or NaN.
func TestGaugeOfUnusualKeys(t *testing.T) {
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
	for range testsize.Of(20_000, 100_000) {
		from, here, last := odd(), odd(), odd()
		if !key.Less(from, here) {
			continue
		}
		end := &last
		if !key.Less(here, last) {
			end = nil
		}
		g := measure([]string{"", from}[r.IntN(2)], end, []string{from, here})
		if !(g.total >= 0) {
			t.Fatalf("from %q, here %q, end %q: %v pages", from, here, last, g.total)
		}
		k, ok := g.keyAfter(g.total * r.Float64())
		if ok && (!key.Less(here, k) || end != nil && !key.Less(k, *end) || !utf8.ValidString(k)) {
			t.Fatalf("from %q, here %q, end %v: a cut at %q", from, here, end, k)
		}
	}
}
