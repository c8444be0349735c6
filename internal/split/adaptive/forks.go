package adaptive

import (
	"encoding/json"
	"sort"
	"unicode/utf8"
)

// forks counts, for each kind of character, how often keys fork after a character of that kind. Keys fork where different characters follow a
// common prefix.
type forks [kinds]struct{ forked, all float64 }

// Kinds of characters. The first character of a key counts as a character after a separator.
const (
	kindSeparator = iota
	kindDigit
	kindOther
	kinds
)

func kindOf(char rune) int {
	switch {
	case char <= ' ' || isSeparator(char):
		return kindSeparator
	case '0' <= char && char <= '9':
		return kindDigit
	}
	return kindOther
}

// MarshalJSON implements [json.Marshaler].
func (f forks) MarshalJSON() ([]byte, error) {
	var v [2 * kinds]float64
	for kind, n := range f {
		v[2*kind], v[2*kind+1] = rounded(n.forked), rounded(n.all)
	}
	return json.Marshal(v)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (f *forks) UnmarshalJSON(b []byte) error {
	var v [2 * kinds]float64
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	for kind := range f {
		f[kind].forked, f[kind].all = v[2*kind], v[2*kind+1]
	}
	return nil
}

func (f forks) probability(behind rune) float64 {
	const weight = 4 // an assumed probability counts as much as this number of counted positions
	supposed := [kinds]float64{0.8, 0.5, 0.1}
	kind := kindOf(behind)
	return (f[kind].forked + weight*supposed[kind]) / (f[kind].all + weight)
}

// afterPage returns f with the forks of one more page of keys. Each page halves the weight of the earlier pages.
func (f forks) afterPage(keys []string) forks {
	var page forks
	page.count(keys, sharedPrefix(keys[0], keys[len(keys)-1]))
	for kind := range f {
		scale := min(1, pageWeight/max(1, page[kind].all))
		f[kind].forked = f[kind].forked/2 + page[kind].forked*scale
		f[kind].all = f[kind].all/2 + page[kind].all*scale
	}
	return f
}

// count counts positions in sorted keys: all positions, and those at which keys with a common prefix continue with different characters. These are
// called forks. The argument `depth` is the length, in bytes, of the prefix that all keys share. count ignores this
// prefix, and prefixes that only a few keys share.
func (f *forks) count(keys []string, depth int) {
	const many = 16
	if len(keys) < many {
		return
	}
	first, last := keys[0], keys[len(keys)-1]
	fork := sharedPrefix(first, last)
	behind, _ := utf8.DecodeLastRuneInString(first[:depth])
	if depth == 0 {
		behind = 0
	}
	for _, char := range first[depth:fork] {
		f[kindOf(behind)].all++
		behind = char
	}
	if first == last {
		return
	}
	f[kindOf(behind)].forked++
	f[kindOf(behind)].all++
	for len(keys) > 0 {
		n := 1 + sort.Search(len(keys)-1, func(i int) bool { return sharedPrefix(keys[0], keys[i+1]) <= fork })
		if len(keys[0]) > fork {
			_, size := utf8.DecodeRuneInString(keys[0][fork:])
			f.count(keys[:n], fork+size)
		}
		keys = keys[n:]
	}
}
