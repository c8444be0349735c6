package steal

import (
	"slices"

	"tablesweep/internal/key"
)

// Halve cuts what is left of a strand that has read a page into two parts that are
// about equally wide, whatever is believed to lie in them, and returns the thieves of
// the second part. It returns none if no key lies between the last key read and the strand's
// end. If the last thieves found nothing, the cut halves the levels between the two
// instead of the keys.
func (m *Model) Halve(s *Strand) []*Strand {
	if s.last == nil {
		return nil
	}
	k, ok := s.halfway()
	if !ok {
		k, ok = m.middle(s)
	}
	if !ok {
		return nil
	}
	s.robbed++
	return s.cut([]key.Key{k}).Thieves
}

// limit returns the text of the strand's end, nil if there is none, and how many
// characters it shares with the last key read.
func (s *Strand) limit() (end text, shared int) {
	if s.End == nil {
		return nil, 0
	}
	end = textOf(*s.End)
	if s.End.Row == "" {
		end = end[:len(end)-1]
	}
	return end, common(s.last, end)
}

// holds reports whether the key lies between the last one read and the strand's end.
func (s *Strand) holds(k key.Key) bool {
	return s.last.key().Compare(k) < 0 && (s.End == nil || k.Compare(*s.End) < 0)
}

// halfway returns the key behind all that share a prefix with the last one read; the
// prefix is half-way between what the page's keys share and what that key and the end share.
func (s *Strand) halfway() (key.Key, bool) {
	_, top := s.limit()
	depth := min(common(s.first, s.last), len(s.last)-1)
	if s.misses == 0 || depth <= top {
		return key.Key{}, false
	}
	t := slices.Clone(s.last[:(top+depth+1)/2+1])
	last := len(t) - 1
	if t[last] == boundary || !ordinary(t[last]+1) {
		return key.Key{}, false
	}
	t[last]++
	k := t.key()
	return k, s.holds(k)
}

// middle returns the key in the middle between the last one read and the strand's end, at the
// first position where there is one.
func (m *Model) middle(s *Strand) (key.Key, bool) {
	end, top := s.limit()
	for depth := top; depth < len(s.last); depth++ {
		from, to := m.position(s.last, depth), 1.0
		if end != nil && depth == top {
			to = m.position(end, depth)
		}
		if to <= from {
			continue
		}
		k := m.spell(s.last, level{depth: depth, rows: m.segment / (to - from)}, (from+to)/2)
		if s.holds(k) {
			return k, true
		}
	}
	return key.Key{}, false
}
