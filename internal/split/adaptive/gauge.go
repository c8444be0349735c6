package adaptive

import (
	"math"
	"slices"

	"tablesweep/internal/key"
)

// gauge estimates how many pages of keys follow the last key read, level by level (see [trail]).
type gauge struct {
	here  []rune // the last key read
	end   *string
	top   int // the number of leading characters that `here` and `end` have in common
	ruler ruler
	ahead []stretch // the stretches between the last key read and the end, in key order
	total float64   // the estimated number of pages from the last key read to the end
}

// stretch is the part of a level that lies between the last key read and the gauge's end.
type stretch struct {
	depth    int
	pages    float64
	from, to float64 // the interval of the stretch on the level's scale from 0 to 1
}

const (
	tooSmall = 1e-14 // position ignores characters that change its result by less than this; float64 is hardly more precise
	narrow   = 1e-4  // the minimum width of a character's interval, on a scale from 0 to 1
	rare     = 0.1   // if the last key read has a separator at a position, all characters except this separator share this part of the scale; see interval
)

func newGauge(a alphabet, here string, end *string) *gauge {
	g := &gauge{here: []rune(here), end: end}
	var to []rune
	if end != nil {
		to = []rune(*end)
		g.top = commonPrefix(g.here, to)
	}
	g.ruler = newRuler(a, g.here, to)
	return g
}

// survey estimates how many pages of keys follow the last key. It begins with the last key's deepest level, and ends at the top. If siblings were
// read in a level (see [trail]), survey assumes that the rest of the level is as dense. In any other level, the estimate depends on the probability
// that the level has siblings. If a large part of the level was read and no sibling was found, this probability is low. Each cut in a level without
// known siblings lowers the probability in all levels without known siblings.
func (g *gauge) survey(t trail, f forks) {
	const (
		smoothing = 0.5  // when a level's density is estimated, the weight of the keys in deeper levels; it is less than 1, because the number of these keys is partly an estimate
		certainty = 30   // if keys fork in a level, the assumed number of siblings in this level
		once      = 0.15 // after each cut in a level without known siblings, the probability of siblings is multiplied by this
	)
	// The loop adds the pages of every level to allPages. It adds the pages of levels with known siblings to knownPages too.
	knownPages := 2 * t.levelAt(len(g.here)).pages
	allPages := knownPages
	for depth := len(g.here) - 1; depth >= g.top; depth-- {
		low, high := g.interval(depth, g.here[depth], true)
		to := 1.0
		if depth == g.top && g.end != nil {
			to = g.position([]rune(*g.end), depth)
		}
		s := stretch{depth: depth, from: high, to: to}
		ahead, width := max(0, to-high), max(high-low, narrow)
		met := t.levelAt(depth)
		if met.pages > 0 {
			s.pages = (met.pages + smoothing*knownPages) / (met.width + smoothing*width) * ahead
			knownPages += met.pages + s.pages
		} else {
			behind := rune(0)
			if depth > 0 {
				behind = g.here[depth-1]
			}
			p := f.probability(behind) * math.Pow(once, float64(t.Tries))
			passed := 0.0
			if depth > t.Fresh {
				passed = low
			}
			lone := math.Pow(1-min(passed, 1), certainty)
			p = p * lone / (p*lone + 1 - p + 1e-9)
			s.pages = allPages * (math.Pow(1+ahead/width, p) - 1)
		}
		if s.pages > 0 {
			g.ahead = append(g.ahead, s)
			g.total += s.pages
		}
		allPages = min(allPages+met.pages+s.pages, maxPages)
	}
}

// scale returns the scale of a position. The scale includes unknown characters only at the first position at which the last key read differs from
// g.end.
func (g *gauge) scale(depth int) scale {
	if depth == g.top {
		return g.ruler.open
	}
	return g.ruler.inner
}

// interval returns the part of the scale from 0 to 1 that belongs to the character `char` at the position `depth` of a key. If the argument
// `path` is true, the key and the last key that was read have the same characters before this position. In that case, if the last key has a
// separator at this position, the separator gets nearly the whole scale, because other keys that begin with these characters seldom have
// another character there.
func (g *gauge) interval(depth int, char rune, path bool) (low, high float64) {
	low, high = g.scale(depth).interval(char)
	if !path || depth >= len(g.here) || !isSeparator(g.here[depth]) {
		return low, high
	}
	switch off := key.Rank(char) - key.Rank(g.here[depth]); {
	case off == 0:
		return low * rare, low*rare + 1 - rare
	case off > 0:
		return low*rare + 1 - rare, high*rare + 1 - rare
	}
	return low * rare, high * rare
}

// char is the inverse of interval: it returns the character whose interval at the position `depth` contains the number u.
func (g *gauge) char(depth int, u float64, path bool) rune {
	s := g.scale(depth)
	if path && depth < len(g.here) && isSeparator(g.here[depth]) {
		switch low, high := g.interval(depth, g.here[depth], true); {
		case u >= high:
			return s.charAt((u - (1 - rare)) / rare)
		case u >= low:
			return g.here[depth]
		}
		u /= rare
	}
	return s.charAt(u)
}

// position returns the place of a key in the level of the given depth, as a number in [0, 1). The key must share its first n characters with the last
// key read, where n is the depth.
func (g *gauge) position(k []rune, depth int) float64 {
	sum, width, path := 0.0, 1.0, true
	for i := depth; i < len(k) && width > tooSmall; i++ {
		low, high := g.interval(i, k[i], path)
		sum += width * low
		width *= high - low
		path = path && i < len(g.here) && k[i] == g.here[i]
	}
	return sum
}

// cutBias moves cuts towards the last key read, because the estimate is best for the nearest keys.
const cutBias = 1.6

// cuts returns up to pieces-1 keys, in order, that divide the keys after the last key read.
func (g *gauge) cuts(pieces int) []string {
	var cuts []string
	for i := 1; i < pieces; i++ {
		if k, ok := g.keyAfter(g.total * math.Pow(float64(i)/float64(pieces), cutBias)); ok {
			cuts = append(cuts, k)
		}
	}
	slices.SortFunc(cuts, key.Compare)
	return slices.Compact(cuts)
}

// keyAfter returns the key that lies the given number of pages after the last key read. ok is false if there is no such key before the end.
func (g *gauge) keyAfter(pages float64) (k string, ok bool) {
	for _, s := range g.ahead {
		if pages >= s.pages {
			pages -= s.pages
			continue
		}
		k := g.keyIn(s, pages/s.pages)
		return k, key.Less(string(g.here), k) && (g.end == nil || key.Less(k, *g.end))
	}
	return "", false
}

// keyIn returns the key at the given share of the stretch. The key is as short as possible, but accurate to a fraction of a page.
func (g *gauge) keyIn(s stretch, share float64) string {
	const longest, exact = 10, 0.05
	u := s.from + share*(s.to-s.from)
	k := append([]rune(nil), g.here[:s.depth]...)
	for i, width := 0, s.pages/(s.to-s.from); i < longest && width >= exact; i++ {
		char := g.char(s.depth+i, u, i == 0)
		low, high := g.interval(s.depth+i, char, i == 0)
		if !key.Ordinary(char) || high <= low {
			break
		}
		k = append(k, char)
		u = min(max(0, (u-low)/(high-low)), 1)
		width *= high - low
	}
	return string(k)
}

func commonPrefix(a, b []rune) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
