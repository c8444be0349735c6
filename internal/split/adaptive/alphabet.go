package adaptive

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"tablesweep/internal/key"
)

const (
	maxLetters = 96  // the number of remembered letters; rarer letters are dropped
	pageWeight = 100 // maximum weight of the letters of one page
)

type letter struct {
	char   rune
	weight float64
}

// alphabet holds, in key order, the characters at which keys have branched so far.
type alphabet []letter

// alphabetJSON is the form of an alphabet in a message.
type alphabetJSON struct {
	Letters string `json:"l,omitempty"`
	Weights []int  `json:"w,omitempty"` // weights in tenths
}

// MarshalJSON implements [json.Marshaler].
func (a alphabet) MarshalJSON() ([]byte, error) {
	var letters strings.Builder
	var weights []int
	for _, l := range a {
		letters.WriteRune(l.char)
		weights = append(weights, int(l.weight*10+0.5))
	}
	return json.Marshal(alphabetJSON{letters.String(), weights})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (a *alphabet) UnmarshalJSON(b []byte) error {
	var v alphabetJSON
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	chars := []rune(v.Letters)
	if len(chars) != len(v.Weights) {
		return fmt.Errorf("the alphabet has %d letters, but %d weights", len(chars), len(v.Weights))
	}
	*a = make(alphabet, len(chars))
	for i, char := range chars {
		(*a)[i] = letter{char, float64(v.Weights[i]) / 10}
	}
	return nil
}

// afterPage returns the alphabet after a page of keys, which are sorted and may repeat. Earlier weights count half. The characters of the last key
// always get a little weight, because estimates start at this key.
func (a alphabet) afterPage(keys []string) alphabet {
	const little = 0.1
	weights := branches(keys)
	for _, l := range a {
		weights[l.char] += l.weight / 2
	}
	for _, char := range keys[len(keys)-1] {
		weights[char] += little
	}
	learned := make(alphabet, 0, len(weights))
	for char, w := range weights {
		if w >= little && key.Ordinary(char) {
			learned = append(learned, letter{char, w})
		}
	}
	slices.SortFunc(learned, func(a, b letter) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), byOrder(a.char, b.char))
	})
	learned = learned[:min(len(learned), maxLetters)]
	slices.SortFunc(learned, func(a, b letter) int { return byOrder(a.char, b.char) })
	return learned
}

// branches returns weights of characters. In the first key, the characters after the common prefix of all keys count. In
// each later key, the characters after the prefix that this key shares with the previous key count. Positions at which few
// characters count are ignored.
func branches(keys []string) map[rune]float64 {
	const (
		depth = 12 // the number of positions examined after the common prefix
		many  = 8
	)
	var at [depth]map[rune]int
	var sum [depth]int
	start := sharedPrefix(keys[0], keys[len(keys)-1])
	for i, k := range keys {
		from := start
		if i > 0 {
			from = max(from, sharedPrefix(keys[i-1], k))
		}
		// The first difference from the previous key starts a new branch.
		position := utf8.RuneCountInString(k[start:from])
		for _, char := range k[from:] {
			if position >= depth {
				break
			}
			if at[position] == nil {
				at[position] = map[rune]int{}
			}
			at[position][char]++
			sum[position]++
			position++
		}
	}
	counts, total := map[rune]int{}, 0
	for i := range at {
		if sum[i] >= many {
			total += sum[i]
			for char, n := range at[i] {
				counts[char] += n
			}
		}
	}
	weights := map[rune]float64{}
	for char, n := range counts {
		weights[char] = float64(n) * min(1, pageWeight/float64(total))
	}
	return weights
}

// sharedPrefix returns the length in bytes of the keys' longest common prefix of whole characters.
func sharedPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	for n > 0 && (n < len(a) && !utf8.RuneStart(a[n]) || n < len(b) && !utf8.RuneStart(b[n])) {
		n--
	}
	return n
}

func byOrder(a, b rune) int { return int(key.Rank(a) - key.Rank(b)) }

// isSeparator reports whether the character is ASCII punctuation.
func isSeparator(char rune) bool {
	return char > ' ' && char < 0x7F && !('0' <= char && char <= '9' || 'a' <= char && char <= 'z' || 'A' <= char && char <= 'Z')
}
