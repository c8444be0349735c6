package adaptive

import "tablesweep/internal/key"

// gauge measures the keys behind a place, in pages. It takes the density of the
// keys that were read up to there and supposes that it goes on. Keys count by
// their characters' likelihood: what shares more characters with here is
// nearer, whatever the characters.
type gauge struct {
	here   []rune // the last key read; what is measured lies behind it
	end    *string
	ruler  ruler
	levels []level // from here up, the nearest first
	total  float64 // pages between here and the end
}

// level is a part of what lies behind here: the keys that share the first depth
// characters with it and differ in the next.
type level struct {
	depth    int
	pages    float64 // of all keys that share depth characters with here
	from, to float64 // the part of those that lies behind here and within the end
}

func (l level) rest() float64 { return l.pages * max(0, l.to-l.from) }

const (
	tooMany  = 1e200 // pages; the climb ends there lest the numbers overflow
	tooSmall = 1e-14 // part of a level; float64 can't tell less from nothing
	rare     = 0.1   // part of a position that is left to the siblings of a separator
)

// newGauge measures what lies behind here and ahead of the end, nil for none,
// by the pages that were read between from and here.
func newGauge(r ruler, from, here string, pages float64, end *string) *gauge {
	g := &gauge{here: []rune(here), end: end, ruler: r}
	first := []rune(from)
	depth := common(first, g.here)
	at := g.position(g.here, depth)
	whole := pages / max(at-g.position(first, depth), tooSmall)
	if end == nil {
		g.climb(depth, 0, whole, at, 1)
		return g
	}
	last := []rune(*end)
	fork := common(g.here, last)
	if fork >= depth {
		g.add(level{depth, whole, at, g.position(last, depth)})
		return g
	}
	g.climb(depth, fork, whole, at, g.position(last, fork))
	return g
}

// climb adds the levels from depth up to top. The end cuts the topmost.
func (g *gauge) climb(depth, top int, whole, at, end float64) {
	to := 1.0
	if depth == top {
		to = end
	}
	g.add(level{depth, whole, at, to})
	for depth > top && whole < tooMany {
		depth--
		low, high := g.part(depth, g.here[depth], true)
		whole /= max(high-low, 1e-4)
		if depth == top {
			to = end
		}
		g.add(level{depth, whole, high, to})
	}
}

func (g *gauge) add(l level) {
	g.levels = append(g.levels, l)
	g.total += l.rest()
}

// scale returns the scale of a position. Only where no end is known, unseen
// characters beyond all others have to be reckoned with.
func (g *gauge) scale(depth int) scale {
	if depth == 0 && g.end == nil {
		return g.ruler.open
	}
	return g.ruler.inner
}

// part returns the part of its position that a character has. On the path, which
// is that of here, a separator takes nearly all: it seldom has siblings.
func (g *gauge) part(depth int, char rune, path bool) (low, high float64) {
	low, high = g.scale(depth).part(char)
	if !path || depth >= len(g.here) || !separator(g.here[depth]) {
		return low, high
	}
	switch off := order(char) - order(g.here[depth]); {
	case off == 0:
		return low * rare, low*rare + 1 - rare
	case off > 0:
		return low*rare + 1 - rare, high*rare + 1 - rare
	}
	return low * rare, high * rare
}

// char returns the character whose part of the position holds u.
func (g *gauge) char(depth int, u float64, path bool) rune {
	s := g.scale(depth)
	if path && depth < len(g.here) && separator(g.here[depth]) {
		switch low, high := g.part(depth, g.here[depth], true); {
		case u >= high:
			return s.at((u - (1 - rare)) / rare)
		case u >= low:
			return g.here[depth]
		}
		u /= rare
	}
	return s.at(u)
}

// position maps the keys that share depth characters with here to [0, 1).
func (g *gauge) position(k []rune, depth int) float64 {
	sum, width, path := 0.0, 1.0, true
	for i := depth; i < len(k) && width > tooSmall; i++ {
		low, high := g.part(i, k[i], path)
		sum += width * low
		width *= high - low
		path = path && i < len(g.here) && k[i] == g.here[i]
	}
	return sum
}

// at returns the key that lies the given number of pages behind here. There may
// be none between here and the end; then ok is false.
func (g *gauge) at(pages float64) (k string, ok bool) {
	for _, l := range g.levels {
		if rest := l.rest(); pages >= rest {
			pages -= rest
			continue
		}
		k := g.spell(l, l.from+pages/l.pages)
		return k, key.Less(string(g.here), k) && (g.end == nil || key.Less(k, *g.end))
	}
	return "", false
}

// spell returns the key at u in the level. It is no longer than it takes to be
// exact to a fraction of a page.
func (g *gauge) spell(l level, u float64) string {
	const longest, exact = 10, 0.05
	k := append([]rune(nil), g.here[:l.depth]...)
	for i, width := 0, l.pages; i < longest && width >= exact; i++ {
		char := g.char(l.depth+i, u, i == 0)
		low, high := g.part(l.depth+i, char, i == 0)
		if !ordinary(char) || high <= low {
			break
		}
		k = append(k, char)
		u = min(max(0, (u-low)/(high-low)), 1)
		width *= high - low
	}
	return string(k)
}

func common(a, b []rune) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
