package index_test

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/key"
	"tablesweep/internal/proof"
)

func TestNumber(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ want, spellings string }{
		{"3.1", "3.1 3.10 31e-1 0.31E1 3.1e+00 3.1000000000000000000000"},
		{"7", "7 7.0 7e0 70e-1 0.7e1"},
		{"1000", "1000 1e3 1E+3 1000.0 10e2"},
		{"1e+21", "1e21 1E21 1000000000000000000000 10.0e20"},
		{"100000000000000000000", "1e20 100000000000000000000 100000000000000000000.0"},
		{"9.5", "9.50 9.5 95e-1"},
		{"0", "0 0.0 -0 -0.0 0e9"},
		{"-3.1", "-3.10 -31e-1"},
		{"1e-7", "1e-7 0.0000001 1.0e-07"},
		{"0.000001", "1e-6 0.000001"},
		{"9007199254740993", "9007199254740993"},
		{"1152921504606846976", "1152921504606846976 1.152921504606847e18"},
		{"9223372036854775807", "9223372036854775807"},
		{"1.7976931348623157e+308", "1.7976931348623157e308"},
		{"5e-324", "5e-324 4.9406564584124654e-324"},
		{"", "x 007 +1 .5 1. 1e 0x10 NaN Infinity 1_000 1e999"},
	} {
		for spelling := range strings.SplitSeq(tt.spellings, " ") {
			got, ok := index.Number(spelling)
			if got != tt.want || ok != (tt.want != "") {
				t.Errorf("Number(%q) = %q, %v, want %q", spelling, got, ok, tt.want)
			}
		}
	}
}

// numbers returns many numbers of all sizes. Some are equal, but spelled differently.
func numbers(r *rand.Rand) []string {
	all := []string{"0", "-0.0", "1", "-1", "9007199254740992", "9007199254740993", "9223372036854775807", "-9223372036854775808",
		"9.2233720368547758e18", "5e-324", "-5e-324", "1.7976931348623157e308", "-1.7976931348623157e308", "0.1", "0.10", "1e-1"}
	for range 100 {
		f := math.Float64frombits(r.Uint64())
		if !math.IsNaN(f) && !math.IsInf(f, 0) {
			all = append(all, strings.Replace(strconv.FormatFloat(f, 'e', -1, 64), "e+", "e", 1))
		}
		all = append(all, strconv.FormatInt(r.Int64()>>r.IntN(64), 10), strconv.FormatInt(-r.Int64()>>r.IntN(64), 10),
			strconv.FormatFloat(float64(r.IntN(2000)-1000)/100, 'f', 2, 64))
	}
	return all
}

// TestNumbersSortByValue compares the order of sort values, and the rows that windows contain, with exact arithmetic.
func TestNumbersSortByValue(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	all := numbers(r)
	exact := func(text string) *big.Rat {
		if c, _ := index.Number(text); !strings.ContainsAny(c, ".e") {
			text = c // the exact value of a Double is that of its canonical text
		}
		v, ok := new(big.Rat).SetString(text)
		if !ok {
			t.Fatal(text)
		}
		return v
	}
	for _, order := range []string{"n:number", "n:number:desc"} {
		s := parse(t, "eid", order)
		sortOf := func(text string) string {
			v, err := s.SortOf(func(string) (string, bool) { return text, true })
			if err != nil {
				t.Fatalf("the sort value of %s: error %v", text, err)
			}
			return v
		}
		for range 3000 {
			a, b := all[r.IntN(len(all))], all[r.IntN(len(all))]
			want := exact(a).Cmp(exact(b))
			if order == "n:number:desc" {
				want = -want
			}
			if got := key.Compare(sortOf(a), sortOf(b)); got != want {
				t.Fatalf("%s: the comparison of %s with %s returns %d, want %d", order, a, b, got, want)
			}
		}
		for range 10 {
			from, to := all[r.IntN(len(all))], all[r.IntN(len(all))]
			w, err := s.Window(from, to)
			proof.Must(t, err)
			rows := rowsFor(t, s, all)
			found, _ := read(w, rows, "")
			for i, row := range found {
				found[i], _, _ = strings.Cut(row, ":") // the row's sort value
			}
			for _, n := range all {
				want := exact(n).Cmp(exact(from)) >= 0 && exact(n).Cmp(exact(to)) <= 0
				if got := slices.Contains(found, sortOf(n)); got != want {
					t.Fatalf("%s, window from %s to %s: the number %s is found: %v, want %v", order, from, to, n, got, want)
				}
			}
		}
		for _, bad := range []string{"", "x", "007", "0.1234567890123456789", "NaN"} {
			if v, err := s.SortOf(func(string) (string, bool) { return bad, true }); err == nil {
				t.Errorf("%q is not a number, but has the sort value %s", bad, v)
			}
			if _, err := s.Window(bad, bad); err == nil && bad != "" {
				t.Errorf("%q is not a number, but is accepted as a bound", bad)
			}
		}
	}
}
