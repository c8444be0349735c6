package adaptive

import (
	"encoding/json"
	"unicode/utf8"
)

// trail is what a strand has read so far, level by level. A level is a depth. It contains the keys that share that many
// characters with the last key read and differ in the next character. They are its siblings there.
type trail struct {
	Here *string `json:"here,omitempty"` // the last key read, nil if there is none
	// Levels from Fresh+1 on were entered while reading: all of their keys
	// before Here have been read.
	Fresh  int     `json:"fresh,omitempty"`
	Levels []level `json:"levels,omitempty"` // levels with siblings, and the level Fresh; the shallowest first
	// Tries counts the strand's cuts in levels where it knew no siblings. The count falls each time the strand then meets
	// siblings in such a level.
	Tries int `json:"tries,omitempty"`
}

// level records how many pages of siblings were read at a depth, and the width of the share of the level that contains them.
type level struct {
	depth        int
	pages, width float64
}

const (
	maxLevels = 32   // remembered levels, the shallowest
	inherited = 0.3  // weight of the inherited levels of a piece, relative to its own
	grain     = 0.02 // pages of siblings above which a level counts as measured
)

// MarshalJSON implements [json.Marshaler].
func (l level) MarshalJSON() ([]byte, error) {
	return json.Marshal([3]float64{float64(l.depth), short(l.pages), short(l.width)})
}

// UnmarshalJSON implements [json.Unmarshaler].
func (l *level) UnmarshalJSON(b []byte) error {
	var v [3]float64
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*l = level{int(v[0]), v[1], v[2]}
	return nil
}

// at returns the level at a depth.
func (t trail) at(depth int) level {
	for _, l := range t.Levels {
		if l.depth == depth {
			return l
		}
	}
	return level{depth: depth}
}

// measured reports whether siblings were met at the depth.
func (t trail) measured(depth int) bool { return t.at(depth).pages > grain }

// inherit returns the trail of a piece that starts at a key. It contains the density of the shared levels, and the number of
// tried cuts.
func (t trail) inherit(start string) trail {
	fork := commonPrefix([]rune(start), []rune(*t.Here))
	piece := trail{Tries: t.Tries}
	for _, l := range t.Levels {
		if l.depth <= fork {
			piece.Levels = append(piece.Levels, level{l.depth, l.pages * inherited, l.width * inherited})
		}
	}
	return piece
}

// read returns the trail after a page of keys, which are the given share of a whole page. The gauge is at its last key. start is
// where the trail begins, if this is its first page.
func (t trail) read(g *gauge, keys []string, share float64, start string) trail {
	before := []rune(start)
	if t.Here == nil {
		t.Fresh = len(before)
	} else {
		before = []rune(*t.Here)
	}
	last := keys[len(keys)-1]
	fork := commonPrefix(before, g.here)
	next := trail{Here: &last, Fresh: min(t.Fresh, fork), Tries: t.Tries}
	if t.Here != nil && !t.measured(fork) {
		next.Tries = max(0, t.Tries-1)
	}
	// The keys read at the fork or below it are now siblings there.
	at := level{depth: fork}
	if fork > t.Fresh && fork < len(before) {
		at.width = g.position(before[:fork+1], fork)
	}
	for _, l := range t.Levels {
		switch {
		case l.depth < fork:
			next.add(l)
		case l.depth == fork:
			at.pages, at.width = at.pages+l.pages, l.width
		default:
			at.pages += l.pages
		}
	}
	if fork < len(g.here) {
		at.width += max(0, g.position(g.here[:fork+1], fork)-g.position(before, fork))
	}
	// The keys are in order, so each shares at least as many characters with the last key as its predecessor does.
	shares, depth := -1, 0
	for _, k := range keys {
		if n := shared(k, last); n != shares {
			shares, depth = n, utf8.RuneCountInString(last[:n])
		}
		if depth > at.depth {
			next.add(at)
			at = level{depth: depth}
			if depth < len(g.here) {
				at.width = g.position(g.here[:depth+1], depth)
			}
		}
		at.pages += share / float64(len(keys))
	}
	next.add(at)
	next.Levels = next.Levels[:min(len(next.Levels), maxLevels)]
	return next
}

// add stores a level if keys were met or passed there.
func (t *trail) add(l level) {
	if l.pages > 0 || l.depth == t.Fresh {
		t.Levels = append(t.Levels, l)
	}
}
