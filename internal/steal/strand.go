package steal

import (
	"sort"
	"strings"

	"tablesweep/internal/key"
	"tablesweep/internal/scan"
)

// Strand is a run of keys that one worker reads.
type Strand struct {
	from key.Key  // where a thief's begins
	end  *key.Key // the first key that belongs to another strand, nil for none

	victim *Strand // whom it was stolen from, until its first page shows how well
	misses int     // its thieves that found nothing since one found something
	since  int     // pages read since the last cut
	robbed int     // thieves since the last page

	rows        float64 // of the last page
	first, last text    // of the last page, nil ahead of the first one
	measure     *measure
}

// NewStrand returns a strand through a range of partition keys.
func NewStrand(r scan.Range) *Strand {
	s := &Strand{}
	if r.High != nil {
		end := key.Key{Partition: r.High.Key}
		if !r.High.Open {
			end = behind(r.High.Key)
		}
		s.end = &end
	}
	return s
}

// Resume returns a strand that begins or goes on anywhere ahead of the end, nil
// for no end.
func Resume(end *key.Key) *Strand { return &Strand{end: end} }

// End returns the first key that belongs to another strand, nil if none does.
func (s *Strand) End() *key.Key { return s.end }

// Range returns what a thief's first query asks for. It may reach beyond the
// strand's end.
func (s *Strand) Range() scan.Range {
	if s.from.Row != "" { // the rest of one partition, or a part of it
		r := scan.Range{Partition: &s.from.Partition, Low: &scan.Bound{Key: s.from.Row}}
		if s.end != nil && s.end.Partition == s.from.Partition {
			r.High = &scan.Bound{Key: s.end.Row, Open: true}
		}
		return r
	}
	r := scan.Range{Low: &scan.Bound{Key: s.from.Partition}}
	if p, ok := strings.CutSuffix(s.from.Partition, "\x00"); ok { // the same without a control character
		r.Low = &scan.Bound{Key: p, Open: true}
	}
	if s.end != nil {
		r.High = &scan.Bound{Key: s.end.Partition, Open: s.end.Row == ""}
		if p, ok := strings.CutSuffix(s.end.Partition, "\x00"); ok && s.end.Row == "" {
			r.High = &scan.Bound{Key: p}
		}
	}
	return r
}

// behind returns the first key behind a partition.
func behind(partition string) key.Key { return key.Key{Partition: partition + "\x00"} }

// Page takes in the answer to a strand's query. It returns how many of the keys,
// from the first on, are the strand's, and whether it goes on behind them.
func (m *Model) Page(s *Strand, p scan.Page) (yield int, more bool) {
	yield = len(p.Keys)
	if s.end != nil {
		yield = sort.Search(len(p.Keys), func(i int) bool { return p.Keys[i].Compare(*s.end) >= 0 })
	}
	more = p.Next != nil && yield == len(p.Keys)
	if v := s.victim; v != nil && (yield > 0 || !more) {
		v.misses++
		if yield > 0 {
			v.misses = 0
		}
		s.victim = nil
	}
	if yield > 0 {
		s.first, s.last = m.learn(p.Keys[:yield])
		s.rows, s.measure = float64(yield), nil
		s.since++
		s.robbed = 0
	}
	return yield, more
}
