package steal

import (
	"math"
	"slices"

	"tablesweep/internal/key"
)

// level is a share of what lies behind a key: the texts that share the first depth
// characters with it and differ in the next.
type level struct {
	depth    int
	rows     float64 // of all texts that share depth characters
	from, to float64 // the share of those between the key and the end
}

func (l level) rest() float64 { return l.rows * max(0, l.to-l.from) }

// measure is how many rows a strand has left, and where.
type measure struct {
	levels []level // the longest prefix first
	total  float64 // rows
}

// measureOf returns the strand's measure. The strand must have read a page.
func (m *Model) measureOf(s *Strand) *measure {
	if s.measure == nil {
		s.measure = m.newMeasure(s)
	}
	return s.measure
}

func (m *Model) newMeasure(s *Strand) *measure {
	const (
		narrow = 1e-6  // the least share of a level that a page is thought to cover
		most   = 1e100 // rows; the climb ends there lest the numbers overflow
	)
	x := &measure{}
	add := func(l level) {
		l.rows *= m.luck[placeOf(s.last, l.depth)].share()
		x.levels = append(x.levels, l)
		x.total += l.rest()
	}
	end, top := s.limit()
	to := func(depth int) float64 {
		if end == nil || depth > top {
			return 1
		}
		return m.position(end, depth)
	}
	depth := common(s.first, s.last)
	rows := s.rows
	if top > depth { // the end is closer than the page is wide
		depth = top
	} else if !m.Partitions || depth < len(s.last) { // a page of one partition has no width
		rows /= max(m.position(s.last, depth)-m.position(s.first, depth), narrow)
	}
	add(level{depth, rows, m.position(s.last, depth), to(depth)})
	for depth > top && rows < most {
		depth--
		k := s.last.before(depth)
		low, high := m.scale(k).interval(s.last[depth])
		whole := rows * m.growth(k)
		siblings := (whole - rows) / max(1-(high-low), 0.01)
		add(level{depth, siblings, high, to(depth)})
		rows = whole
	}
	return x
}

// cuts returns up to n keys to cut the strand at, in order, none if there is no
// key between the last one read and its end.
func (m *Model) cuts(s *Strand, n int) []key.Key {
	const wide = 0.3 // share of the thieves that try level by level
	x := m.measureOf(s)
	byLevel := min(n, int(float64(n)*wide)+s.misses%2)
	var cuts []key.Key
	add := func(k key.Key) {
		if s.holds(k) {
			cuts = append(cuts, k)
		}
	}
	evenly := s.evenly((n + 6) / 10)
	for _, k := range evenly {
		add(k)
	}
	byMeasure := n - byLevel - len(evenly)
	for i := 1; i <= byMeasure; i++ {
		if l, u, ok := x.at(quantile(i, byMeasure)); ok {
			add(m.spell(s.last, l, u))
		}
	}
	for i := 1; i <= byLevel; i++ {
		if l, u, ok := x.byLevel(float64(i) / float64(byLevel+1)); ok {
			add(m.spell(s.last, l, u))
		}
	}
	if len(cuts) == 0 {
		if k, ok := s.next(); ok {
			add(k)
		}
	}
	slices.SortFunc(cuts, key.Key.Compare)
	return slices.Compact(cuts)
}

// slant pulls cuts towards the last key read. What is near is known best, and the
// strand is to end soon if nothing else is found.
const slant = 1.25

// quantile returns the share of the rows that is to lie before the i-th of n cuts.
func quantile(i, n int) float64 { return math.Pow(float64(i)/float64(n+1), slant) }

// at returns where the given share of the rows left ends: a level and the position
// in it.
func (x *measure) at(share float64) (l level, u float64, ok bool) {
	rows := x.total * share
	for _, l := range x.levels {
		if rest := l.rest(); rows >= rest {
			rows -= rest
			continue
		}
		return l, l.from + rows/l.rows, true
	}
	return level{}, 0, false
}

// byLevel does the same for one who believes less in the measure: levels count by
// a power of their rows.
func (x *measure) byLevel(share float64) (l level, u float64, ok bool) {
	const power = 0.4
	sum := 0.0
	for _, l := range x.levels {
		sum += math.Pow(l.rest(), power)
	}
	left := sum * share
	for _, l := range x.levels {
		weight := math.Pow(l.rest(), power)
		if left >= weight {
			left -= weight
			continue
		}
		return l, l.from + (l.to-l.from)*math.Pow(left/weight, slant), true
	}
	return level{}, 0, false
}

// spell returns the key at a position of a level. It is no longer than it takes to
// be exact to a fraction of a page.
func (m *Model) spell(t text, l level, u float64) key.Key {
	const longest, exact = 10, 0.1
	t = slices.Clone(t[:l.depth])
	inRow := slices.Contains(t, boundary)
	for i, rows := 0, l.rows; i < longest && (i == 0 || rows >= exact*m.page); i++ {
		s := m.scale(t.before(len(t)))
		rank := s.at(u)
		low, high := s.interval(rank)
		if high <= low || rank == boundary && inRow || rank != boundary && !ordinary(rank) {
			break
		}
		inRow = inRow || rank == boundary
		t = append(t, rank)
		u = min(max(0, (u-low)/(high-low)), 1)
		rows *= high - low
	}
	return t.key()
}

// evenly returns n keys at even steps of all characters that there are, at the first position where the last
// key read and the strand's end part. It finds what no page has shown: a script of thousands of letters.
func (s *Strand) evenly(n int) []key.Key {
	end, depth := s.limit()
	from, to := rune(0), key.Rank(0xFFFF)+1
	if depth < len(s.last) {
		from = s.last[depth]
	}
	if depth < len(end) {
		to = end[depth]
	}
	var keys []key.Key
	for i := 1; i <= n; i++ {
		if rank := from + (to-from)*rune(i)/rune(n+1); rank > from && ordinary(rank) {
			keys = append(keys, append(slices.Clone(s.last[:depth]), rank).key())
		}
	}
	return keys
}

// next returns the first key behind all that share a prefix with the last
// one read, at the position where its page's keys differ.
func (s *Strand) next() (key.Key, bool) {
	depth := common(s.first, s.last)
	if depth == len(s.last) || !ordinary(s.last[depth]+1) {
		return key.Key{}, false
	}
	t := slices.Clone(s.last[:depth+1])
	t[depth]++
	return t.key(), true
}

// ordinary reports whether a cut may hold the character of a rank in a text.
func ordinary(rank rune) bool { return rank != boundary && key.Ordinary(key.AtRank(rank-1)) }
