package adaptive

import (
	"encoding/json"
	"unicode/utf8"
)

// trail summarizes the keys that were read, level by level. The level of depth n contains the keys that share n characters with the last key read,
// and differ in the next character. These keys are the siblings of the last key in that level.
type trail struct {
	Here *string `json:"here,omitempty"` // the last key read, nil if there is none
	// Fresh is the length, in characters, of the longest common prefix of Here and the key at which the trail began. In each level deeper than
	// Fresh, all siblings that sort before Here have been read.
	Fresh  int     `json:"fresh,omitempty"`
	Levels []level `json:"levels,omitempty"` // levels in which siblings were read, and the level of depth Fresh, sorted by depth
	// In a strand, Tries counts the divisions whose first cut was in a level whose siblings were unknown at that time. In a
	// [Piece], Tries counts the thieves (see [Theft]) that found no rows. If a page contains siblings of a level whose siblings were unknown
	// before, the page lowers Tries by 1.
	Tries int `json:"tries,omitempty"`
}

// level describes the siblings that were read at a depth: how many pages they fill, and what part of the level they cover,
// from 0 to 1.
type level struct {
	depth        int
	pages, width float64
}

const (
	maxLevels = 32   // the number of remembered levels; deeper levels are dropped
	inherited = 0.3  // a piece inherits this fraction of a level's pages and width, so that the piece's own pages count more than inherited ones
	grain     = 0.02 // if the siblings read in a level fill more than this part of a page, the level counts as measured
)

// MarshalJSON implements [json.Marshaler].
func (l level) MarshalJSON() ([]byte, error) {
	return json.Marshal([3]float64{float64(l.depth), rounded(l.pages), rounded(l.width)})
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

func (t trail) levelAt(depth int) level {
	for _, l := range t.Levels {
		if l.depth == depth {
			return l
		}
	}
	return level{depth: depth}
}

func (t trail) isMeasured(depth int) bool { return t.levelAt(depth).pages > grain }

// inherit returns the trail of a new piece that starts at the key `start`. The new trail has the Tries of t. If `start` and the last key read
// share n characters, the new trail also has the levels of t up to depth n, with less weight.
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

// afterPage returns the trail after a page was read. The argument `keys` contains the page's keys, or some of them. The argument `share` is the fraction of
// the page's keys that `keys` contains: 1 for all, and 0.5 for half of them. The argument g must be the gauge of the last key in `keys`. If this is the
// first page of the trail, `start` is the key at which the trail begins.
func (t trail) afterPage(g *gauge, keys []string, share float64, start string) trail {
	before := []rune(start)
	if t.Here == nil {
		t.Fresh = len(before)
	} else {
		before = []rune(*t.Here)
	}
	last := keys[len(keys)-1]
	fork := commonPrefix(before, g.here)
	next := trail{Here: &last, Fresh: min(t.Fresh, fork), Tries: t.Tries}
	if t.Here != nil && !t.isMeasured(fork) {
		next.Tries = max(0, t.Tries-1)
	}
	// The levels deeper than `fork` are dropped, and their pages are added to the level at the depth `fork`.
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
	// The keys are sorted, so the prefix that a key shares with `last` is at least as long as the prefix that the previous key shares with `last`.
	shares, depth := -1, 0
	for _, k := range keys {
		if n := sharedPrefix(k, last); n != shares {
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

// add appends l to t.Levels, if siblings were read in l or its depth is t.Fresh.
func (t *trail) add(l level) {
	if l.pages > 0 || l.depth == t.Fresh {
		t.Levels = append(t.Levels, l)
	}
}
