package adaptive

import (
	"strings"

	"tablesweep/internal/key"
)

// Piece is the keys that one of a process's [Workers] reads, one after the other. Its JSON form keeps its end and nothing of
// what was learned: what was read back can be read on, and be cut after a page.
type Piece struct {
	// End is the first key that belongs to another piece, nil if none does. Only [Workers.Steal] changes it.
	End *key.Key `json:"end,omitempty"`

	from     key.Key // a thief's first key
	victim   *Piece  // that it was cut from; nil after its first page
	part     float64 // of the theft that is its own
	within   bool    // its keys are in the partition that the victim was reading
	believed float64 // pages that it was thought to have then

	misses float64 // thefts in a row that found nothing
	since  int     // pages read since a thief has found something
	robbed int     // thieves since the last page
	streak int     // the last pages that lay in one partition

	last  *key.Key // read; nil before the first page
	outer trail    // of partition keys
	inner trail    // of row keys, if the last page lay in one partition, or if what is left does
	ahead *ahead   // nil until it is measured
}

// NewPiece returns a piece through a range: of partitions, or of one partition's rows. Its first query asks for that range, so
// its rows begin there.
func NewPiece(r key.Range) *Piece { return &Piece{End: r.End()} }

// Range returns what a thief's first query asks for. It may reach beyond the
// piece's end.
func (s *Piece) Range() key.Range {
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

// noteTheft takes the report of a thief that has found something, or nothing, in what it took of the piece.
func (s *Piece) noteTheft(thief *Piece, found bool) {
	s.ahead = nil
	switch {
	case found:
		s.misses, s.since = 0, 0
	case thief.within:
		s.misses += thief.part
		s.inner.Tries++
	default:
		s.misses += thief.part
		s.outer.Tries++
	}
}

// inLastPartition reports whether what is left lies in the partition of the last key read.
func (s *Piece) inLastPartition() bool {
	return s.End != nil && s.End.Compare(key.BehindPartition(s.last.Partition)) <= 0
}

// endPartition returns the partition key where the piece ends, nil if it does not.
func (s *Piece) endPartition() *string {
	if s.End == nil {
		return nil
	}
	return &s.End.Partition
}

// endRow returns the row key where the piece ends within the partition of the last key read, nil if it does not.
func (s *Piece) endRow() *string {
	if s.End == nil || s.End.Partition != s.last.Partition {
		return nil
	}
	return &s.End.Row
}

// holds reports whether the key lies between the last one read and the piece's end.
func (s *Piece) holds(k key.Key) bool {
	return s.last.Compare(k) < 0 && (s.End == nil || k.Compare(*s.End) < 0)
}

// cut divides what is left of the piece at the cuts. A thief's keys lie in one
// partition or begin with one, since a query can't ask for anything else.
func (s *Piece) cut(cuts []key.Key) Theft {
	t := Theft{Victim: s}
	for i, c := range cuts {
		t.add(c)
		next := s.End
		if i+1 < len(cuts) {
			next = &cuts[i+1]
		}
		if after := key.BehindPartition(c.Partition); c.Row != "" && (next == nil || after.Compare(*next) < 0) {
			t.add(after)
		}
	}
	for _, thief := range t.Thieves {
		thief.part = 1 / float64(len(t.Thieves))
	}
	t.Thieves[len(t.Thieves)-1].End = s.End
	s.End, s.ahead = &t.Thieves[0].from, nil
	return t
}

// add adds a thief that begins at a key. It inherits what the victim knows of the levels that they share.
func (t *Theft) add(from key.Key) {
	if n := len(t.Thieves); n > 0 {
		t.Thieves[n-1].End = &from
	}
	s := t.Victim
	thief := &Piece{from: from, victim: s}
	if s.outer.Here != nil {
		thief.outer = s.outer.inherit(from.Partition)
	}
	if s.inner.Here != nil && from.Partition == s.last.Partition {
		thief.within, thief.inner = true, s.inner.inherit(from.Row)
	}
	t.Thieves = append(t.Thieves, thief)
}
