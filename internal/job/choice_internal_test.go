package job

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tablesweep/internal/proof/testsize"
)

// TestPatternsChooseTables checks which tables random patterns choose, by comparison with regular expressions.
func TestPatternsChooseTables(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range testsize.Slow(500, 5000, 50_000) {
		letter := func() string { return string("aAbB1"[r.IntN(5)]) }
		var names, want []string
		for range 12 {
			names = append(names, "t"+letter()+letter()+letter())
		}
		var choice Choice
		var twins []*regexp.Regexp
		unmatched := false
		for range 1 + r.IntN(2) {
			p, twin := "T", "t"
			for range 3 {
				one := letter()
				way := [][2]string{{"*", ".*"}, {"?", "."}, {"[a1]", "[a1]"}, {one, one}}[r.IntN(4)]
				p, twin = p+way[0], twin+way[1]
			}
			choice.Patterns = append(choice.Patterns, p)
			twins = append(twins, regexp.MustCompile("(?i)^"+twin+"$"))
			unmatched = unmatched || !slices.ContainsFunc(names, twins[len(twins)-1].MatchString)
		}
		for _, name := range names {
			if !unmatched && slices.ContainsFunc(twins, func(twin *regexp.Regexp) bool { return twin.MatchString(name) }) {
				want = append(want, name)
			}
		}
		got, err := choice.matchingNames(slices.Clone(names))
		if !slices.Equal(got, want) || (err != nil) != unmatched || unmatched && !strings.Contains(err.Error(), "matches none of 12 tables") {
			t.Errorf("patterns %v, tables %v: got %v, %v, want %v", choice.Patterns, names, got, err, want)
		}
	}
}
