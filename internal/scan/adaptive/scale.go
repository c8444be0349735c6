package adaptive

import (
	"math"
	"slices"
	"unicode/utf8"

	"tablesweep/internal/key"
)

// scale divides the interval [0, 1) among the characters of one position of a
// key, each as likely as it is wide.
type scale struct {
	chars []rune    // in key order
	ends  []float64 // where the interval of each ends
}

// newScale returns the scale of characters with the given weights.
func newScale(weights map[rune]float64) scale {
	var s scale
	for char := range weights {
		s.chars = append(s.chars, char)
	}
	slices.SortFunc(s.chars, byOrder)
	sum := 0.0
	for _, char := range s.chars {
		sum += weights[char]
		s.ends = append(s.ends, sum)
	}
	for i := range s.ends {
		s.ends[i] /= sum
	}
	return s
}

// interval returns what of [0, 1) belongs to the character. One that
// is not on the scale has none.
func (s scale) interval(char rune) (low, high float64) {
	i, found := slices.BinarySearchFunc(s.chars, char, byOrder)
	if i > 0 {
		low = s.ends[i-1]
	}
	if !found {
		return low, low
	}
	return low, s.ends[i]
}

// at returns the character whose interval holds u.
func (s scale) at(u float64) rune {
	i, found := slices.BinarySearch(s.ends, u)
	if found {
		i++
	}
	return s.chars[min(i, len(s.chars)-1)]
}

// ruler is what a gauge measures with.
type ruler struct {
	inner scale // of any position
	open  scale // of the first position of a range without end
}

// newRuler returns the ruler of an alphabet, given the last key read. What was
// learned is mixed with what may be supposed of any keys: digits and letters.
// Where the range has no end, a share is kept for characters above any that was
// seen: a fifth of what is supposed, half of everything once the keys have
// left ASCII.
func newRuler(a alphabet, last string) ruler {
	const supposed = 16 // weight; a page's letters weigh up to pageWeight
	weights := map[rune]float64{}
	total := float64(supposed)
	for _, l := range a {
		weights[l.char] += l.weight
		total += l.weight
	}
	for _, p := range []struct {
		from, to rune
		share    float64
	}{{'0', '9', 0.4}, {'a', 'z', 0.4}, {'A', 'Z', 0.2}} {
		for char := p.from; char <= p.to; char++ {
			weights[char] += supposed * p.share / float64(p.to-p.from+1)
		}
	}
	r := ruler{inner: newScale(weights)}
	above, top := 0.2*supposed, rune('~')
	if first, _ := utf8.DecodeRuneInString(last); last != "" && key.Rank(first) > top {
		above, top = total/2, key.Rank(first)
	}
	const steps = 12
	ratio := math.Pow(float64(key.Rank(0xFFFF))/float64(top), 1.0/steps)
	for i, at := 1, float64(top); i < steps; i++ {
		at *= ratio
		if char := key.AtRank(rune(at)); key.Ordinary(char) {
			weights[char] += above / steps
		}
	}
	r.open = newScale(weights)
	return r
}
