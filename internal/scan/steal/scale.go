package steal

import (
	"math"
	"slices"

	"tablesweep/internal/key"
)

// cell is a character of a text, or 64 neighbors of them outside of ASCII.
type cell rune

const (
	ascii    = 0x80 + 1 // the first rank in a text that is not ASCII
	cellBits = 6
)

func cellOf(rank rune) cell {
	if rank < ascii {
		return cell(rank)
	}
	return cell((rank-ascii)>>cellBits + ascii)
}

// scale divides the interval [0, 1) among the characters of one position, each
// as likely as it is wide.
type scale struct {
	cells []cell    // in key order
	ends  []float64 // where the interval of each ends
}

// supposed is what is known of any keys: characters and their share.
var supposed = []struct {
	from, to rune
	share    float64
}{{'0', '9', 0.3}, {'a', 'z', 0.4}, {'A', 'Z', 0.2}, {'!', '/', 0.05}, {'_', '_', 0.02}, {'|', '|', 0.03}}

// newScale returns the scale of what was learned, mixed with what is supposed.
// Characters above all that were met get a little.
func newScale(learned map[cell]float64) *scale {
	const (
		temper = 0.5 // power of a count: rare branches have large subtrees, too
		sure   = 4.0 // weight of what is supposed
		above  = 0.2 // weight of characters above all others
		steps  = 12  // that these are taken in
	)
	weights := map[cell]float64{}
	top := cell(ascii)
	for c, n := range learned {
		weights[c] = math.Pow(n, temper)
		top = max(top, c)
	}
	for _, p := range supposed {
		for char := p.from; char <= p.to; char++ {
			weights[cellOf(char+1)] += sure * p.share / float64(p.to-p.from+1)
		}
	}
	ratio := math.Pow(float64(cellOf(key.Rank(0xFFFF)+1))/float64(top), 1.0/steps)
	for i, at := 0, float64(top); i < steps; i++ {
		weights[cell(at)] += above / steps
		at *= ratio
	}
	s := &scale{}
	for c := range weights {
		s.cells = append(s.cells, c)
	}
	slices.Sort(s.cells)
	sum := 0.0
	for _, c := range s.cells {
		sum += weights[c]
		s.ends = append(s.ends, sum)
	}
	for i := range s.ends {
		s.ends[i] /= sum
	}
	return s
}

// interval returns what of [0, 1) belongs to the rank. One that is
// not on the scale has none.
func (s *scale) interval(rank rune) (low, high float64) {
	i, found := slices.BinarySearch(s.cells, cellOf(rank))
	low = s.start(i)
	switch {
	case !found:
		return low, low
	case rank < ascii:
		return low, s.ends[i]
	}
	width := (s.ends[i] - low) / (1 << cellBits)
	low += float64((rank-ascii)%(1<<cellBits)) * width
	return low, low + width
}

func (s *scale) start(i int) float64 {
	if i == 0 {
		return 0
	}
	return s.ends[i-1]
}

// at returns the rank whose interval holds u.
func (s *scale) at(u float64) rune {
	i, found := slices.BinarySearch(s.ends, u)
	if found {
		i++
	}
	i = min(i, len(s.cells)-1)
	rank := rune(s.cells[i])
	if rank < ascii {
		return rank
	}
	f := (u - s.start(i)) / (s.ends[i] - s.start(i))
	return (rank-ascii)<<cellBits + ascii + min(rune(f*(1<<cellBits)), 1<<cellBits-1)
}
