package adaptive

import (
	"math"
	"slices"

	"tablesweep/internal/key"
)

// scale divides the interval [0, 1) among the characters of one position of a key. A character's width is its probability.
type scale struct {
	chars []rune    // the characters, in key order
	ends  []float64 // the end of each character's interval
}

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

// interval returns the character's part of [0, 1). It is empty for a character that is not on the scale.
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

// charAt returns the character whose interval contains u.
func (s scale) charAt(u float64) rune {
	i, found := slices.BinarySearch(s.ends, u)
	if found {
		i++
	}
	return s.chars[min(i, len(s.chars)-1)]
}

// ruler holds the scales that a gauge uses.
type ruler struct {
	inner scale // the scale of all positions except the first one at which the last key read and the end differ
	open  scale // the scale of that position
}

// newRuler returns the ruler of the alphabet a for the keys after the last key read, up to `end`. The argument `here` is the last key read. If
// `end` is nil, the keys have no upper bound. newRuler adds digits and letters to the learned characters, because any key may contain them. Unknown
// characters get weight only at one position: the first position at which `here` and `end` differ. If `here` or `end` has a character beyond ASCII
// at this position, the unknown characters together weigh half as much as all other characters. Otherwise, their weight depends on
// `end`. If `end` is set, the unknown characters have no weight. If `end` is nil, they together weigh a fifth as much as the added digits and letters.
func newRuler(a alphabet, here, end []rune) ruler {
	const (
		supposed = 16  // the weight of assumed characters; a page's letters weigh up to pageWeight
		top      = '~' // the last of the ASCII characters that are assumed to occur
		steps    = 12  // the range of the unknown characters is divided into this number of intervals
	)
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
	from, to := top, key.Rank(0xFFFF)
	depth := 0
	if end != nil {
		depth, to = commonPrefix(here, end), 0
		if depth < len(end) {
			to = key.Rank(end[depth])
		}
	}
	if depth < len(here) {
		from = max(top, key.Rank(here[depth]))
	}
	unseen := 0.0
	switch {
	case from > top || end != nil && to > top:
		unseen = total / 2
	case end == nil:
		unseen = 0.2 * supposed
	}
	for i := 1; i < steps; i++ {
		at := float64(from) * math.Pow(float64(to)/float64(from), float64(i)/steps)
		if char := key.AtRank(rune(at)); unseen > 0 && key.Ordinary(char) {
			weights[char] += unseen / steps
		}
	}
	r.open = newScale(weights)
	return r
}
