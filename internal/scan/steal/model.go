package steal

import (
	"math"
	"slices"

	"tablesweep/internal/key"
)

// Model is what all workers of a scan have learned of its keys.
type Model struct {
	// Partitions tells that keys have no row keys: strands part between partitions.
	Partitions bool

	page   float64 // rows in a full page
	habits [kinds]habit
	luck   [places]luck // by the place where thieves part from their victim's last key
}

// luck is what became of the first queries of thieves.
type luck struct{ tried, found float64 }

// share returns the share of the thieves that find something there, all as long as few have tried.
func (l luck) share() float64 {
	const sure = 8
	return (l.found + sure) / (l.tried + sure)
}

// places are the positions of partition keys, and those of row keys: keys have fixed fields, which fork nowhere.
const places = 64

func placeOf(t text, depth int) int {
	if i := slices.Index(t, boundary); i >= 0 && i < depth {
		return places/2 + min(depth-i-1, places/2-1)
	}
	return min(depth, places/2-1)
}

// New returns a model that has learned nothing, for pages of so many rows.
func New(page int) *Model { return &Model{page: float64(page)} }

// habit is what was learned of the positions behind a kind of character.
type habit struct {
	branches map[cell]float64 // how often keys branched into each character
	growth   float64          // sum of the logarithms of what grow measured
	grown    float64          // number of those
	scale    *scale           // of branches; nil if these have changed
}

// learn takes in a page of keys.
func (m *Model) learn(keys []key.Key) (first, last text) {
	const samples = 8
	texts := make([]text, len(keys))
	shared := make([]int, len(keys)) // with the key before
	for i, k := range keys {
		texts[i] = textOf(k)
		if m.Partitions {
			texts[i] = texts[i][:len(texts[i])-1]
		}
		if i > 0 {
			shared[i] = common(texts[i-1], texts[i])
			m.branch(texts[i-1], texts[i], shared[i])
		}
	}
	for i := range samples {
		m.grow(texts, shared, (2*i+1)*len(texts)/(2*samples))
	}
	return texts[0], texts[len(texts)-1]
}

// branch learns from two neighbors where and into what keys branch.
func (m *Model) branch(a, b text, shared int) {
	if shared == len(b) { // a key that is there twice teaches nothing
		return
	}
	h := &m.habits[b.before(shared)]
	if h.branches == nil {
		h.branches = map[cell]float64{}
	}
	h.branches[cellOf(b[shared])]++
	if shared < len(a) {
		h.branches[cellOf(a[shared])] += 0.5
	}
	h.scale = nil
}

// grow learns by which factor the rows with the i-th key's prefix grow when the
// prefix is one character shorter. It counts no prefix that rows beyond the
// page may share.
func (m *Model) grow(texts []text, shared []int, i int) {
	const few = 8 // rows; fewer say nothing about prefixes that have pages of them
	t := texts[i]
	sharing := make([]int, len(t)+1) // keys that share so much with t, and no more
	ahead, behind := len(t), len(t)
	for j := i; j > 0; j-- {
		ahead = min(ahead, shared[j])
		sharing[ahead]++
	}
	for j := i + 1; j < len(texts); j++ {
		behind = min(behind, shared[j])
		sharing[behind]++
	}
	rows := 1 + sharing[len(t)]
	for depth := len(t) - 1; depth > max(ahead, behind); depth-- {
		whole := rows + sharing[depth]
		if rows >= few {
			h := &m.habits[t.before(depth)]
			h.growth += math.Log(float64(whole) / float64(rows))
			h.grown++
		}
		rows = whole
	}
}

// growth returns the factor by which rows grow at a position behind a character
// of the kind.
func (m *Model) growth(k kind) float64 {
	const supposed, sure = 0.7, 4
	h := &m.habits[k]
	return math.Exp((h.growth + supposed*sure) / (h.grown + sure))
}

func (m *Model) scale(k kind) *scale {
	h := &m.habits[k]
	if h.scale == nil {
		h.scale = newScale(h.branches)
	}
	return h.scale
}

// position maps the texts that share depth characters with t to [0, 1).
func (m *Model) position(t text, depth int) float64 {
	const tooSmall = 1e-12
	sum, width := 0.0, 1.0
	for i := depth; i < len(t) && width > tooSmall; i++ {
		low, high := m.scale(t.before(i)).interval(t[i])
		sum += width * low
		width *= high - low
	}
	return sum
}
