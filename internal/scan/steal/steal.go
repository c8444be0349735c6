package steal

import (
	"math"

	"tablesweep/internal/key"
)

// Theft is what idle workers take from a strand.
type Theft struct {
	Victim  *Strand   // its end is where the first thief begins
	Thieves []*Strand // in key order
}

// Steal sends idle workers to the strands, and cuts these. Strands that have read
// nothing yet can't be cut. There may be more thieves than workers: the rest of a
// partition and what follows it take a query each.
func (m *Model) Steal(strands []*Strand, idle int) []Theft {
	given := m.share(strands, idle)
	var thefts []Theft
	for i, s := range strands {
		if given[i] == 0 {
			continue
		}
		cuts := m.cuts(s, given[i])
		s.robbed += given[i]
		if len(cuts) == 0 {
			continue
		}
		whole := m.measureOf(s).total
		t := s.cut(cuts)
		for _, thief := range t.Thieves {
			thief.believed = (whole - m.measureOf(s).total) / float64(len(t.Thieves))
		}
		thefts = append(thefts, t)
	}
	return thefts
}

// share divides idle workers among the strands.
func (m *Model) share(strands []*Strand, idle int) []int {
	given := make([]int, len(strands))
	worth := make([]float64, len(strands))
	for i, s := range strands {
		if s.last != nil {
			worth[i] = m.worth(s)
		}
	}
	for ; idle > 0; idle-- {
		best, fewest, most := -1, 0, 0.0
		for i, w := range worth {
			n := given[i] + strands[i].robbed
			if w /= float64(n + 1); w > 0 && (best < 0 || min(n, 1) < fewest || min(n, 1) == fewest && w > most) {
				best, fewest, most = i, min(n, 1), w
			}
		}
		if best < 0 {
			break
		}
		given[best]++
	}
	return given
}

// worth returns how much it is worth to rob a strand: more for long ones, less
// for those that were robbed in vain.
func (m *Model) worth(s *Strand) float64 {
	const most, least = 300, 0.01
	rows, _ := m.Left(s)
	pages := min(most, max(rows/m.page, least))
	return math.Sqrt(pages) / float64(1+s.misses)
}

// cut divides what is left of the strand at the cuts. A piece lies in one
// partition or begins with one, since a query can't ask for anything else.
func (s *Strand) cut(cuts []key.Key) Theft {
	t := Theft{Victim: s}
	add := func(from key.Key) {
		if n := len(t.Thieves); n > 0 {
			t.Thieves[n-1].End = &from
		}
		place := placeOf(s.last, common(s.last, textOf(from)))
		t.Thieves = append(t.Thieves, &Strand{from: from, victim: s, place: place})
	}
	for i, c := range cuts {
		add(c)
		next := s.End
		if i+1 < len(cuts) {
			next = &cuts[i+1]
		}
		if after := key.BehindPartition(c.Partition); c.Row != "" && (next == nil || after.Compare(*next) < 0) {
			add(after)
		}
	}
	t.Thieves[len(t.Thieves)-1].End = s.End
	s.End, s.since, s.measure = &t.Thieves[0].from, 0, nil
	return t
}

// Left returns how many rows the strand is believed to have left, as many at least as it has read since
// its last cut: a page may end where it seems that nothing follows. ok is false if nothing is known of it.
func (m *Model) Left(s *Strand) (rows float64, ok bool) {
	switch {
	case s.last != nil:
		return max(m.measureOf(s).total, float64(s.since)*m.page), true
	case s.victim != nil:
		return s.believed, true
	}
	return 0, false
}
