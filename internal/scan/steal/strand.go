package steal

import (
	"sort"
	"strings"

	"tablesweep/internal/key"
	"tablesweep/internal/scan"
)

// Strand is the keys that one worker reads, one after the other. Its JSON form keeps its end and
// nothing of what was learned: what was read back can be read on, and be cut after
// a page.
type Strand struct {
	// End is the first key that belongs to another strand, nil if none does. Only
	// [Model.Steal] changes it.
	End *key.Key `json:"end,omitempty"`

	from key.Key // a thief's first key

	victim   *Strand // the strand that it was stolen from; nil after its first page
	place    int     // where it parted from that one's last key
	believed float64 // rows that it was thought to have when it was stolen
	misses   int     // thieves in a row that found nothing in it
	since    int     // pages read since the last cut
	robbed   int     // thieves since the last page

	rows        float64 // of the last page
	first, last text    // of the last page, nil before the first one
	measure     *measure
}

// NewStrand returns a strand through a range: of partitions, or of one partition's rows. Its first query asks for that range, so
// its rows begin there.
func NewStrand(r key.Range) *Strand { return &Strand{End: r.End()} }

// Range returns what a thief's first query asks for. It may reach beyond the
// strand's end.
func (s *Strand) Range() key.Range {
	if s.from.Row != "" { // the rest of one partition, or less of it
		r := key.Range{Partition: &s.from.Partition, Low: &key.Bound{Key: s.from.Row}}
		if s.End != nil && s.End.Partition == s.from.Partition {
			r.High = upTo(s.End.Row)
		}
		return r
	}
	r := key.Range{Low: &key.Bound{Key: s.from.Partition}}
	if p, ok := strings.CutSuffix(s.from.Partition, "\x00"); ok { // as in upTo
		r.Low = &key.Bound{Key: p, Open: true}
	}
	if s.End != nil {
		r.High = &key.Bound{Key: s.End.Partition}
		if s.End.Row == "" {
			r.High = upTo(s.End.Partition)
		}
	}
	return r
}

// upTo returns the bound of the keys ahead of one, without the control character of a key that is the next one behind another.
func upTo(end string) *key.Bound {
	if k, ok := strings.CutSuffix(end, "\x00"); ok {
		return &key.Bound{Key: k}
	}
	return &key.Bound{Key: end, Open: true}
}

// Page takes in the answer to a strand's query. It returns how many of the keys,
// from the first on, are the strand's, and whether it goes on behind them.
func (m *Model) Page(s *Strand, p scan.Page) (yield int, more bool) {
	yield = len(p.Keys)
	if s.End != nil {
		yield = sort.Search(len(p.Keys), func(i int) bool { return p.Keys[i].Compare(*s.End) >= 0 })
	}
	more = p.Next != nil && yield == len(p.Keys)
	if v := s.victim; v != nil && (yield > 0 || !more) {
		v.misses++
		m.luck[s.place].tried++
		if yield > 0 {
			v.misses = 0
			m.luck[s.place].found++
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
