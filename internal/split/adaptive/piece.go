package adaptive

import (
	"strings"

	"tablesweep/internal/key"
)

// Piece is a range of keys that one of a process's [Workers] reads in order. The JSON form of a piece contains only the piece's end. If a piece was
// decoded from JSON, it cannot be cut before its next page is read.
type Piece struct {
	// End is the first key that belongs to another piece, or nil. Only [Workers.Steal] changes it.
	End *key.Key `json:"end,omitempty"`

	from     key.Key // the first key of this piece, if this piece was cut from another piece
	victim   *Piece  // the piece from which this piece was cut; nil after this piece's first page
	part     float64 // 1/n if n pieces were cut from the victim at the same time
	within   bool    // the piece begins in the partition that its victim was reading
	believed float64 // the number of pages that was expected when the piece was cut

	misses float64 // the sum of `part` over the thieves (see [Theft]) that found no rows; becomes 0 when a thief finds rows
	since  int     // pages read since a thief last found rows
	robbed int     // number of workers that Steal has assigned to the piece since a page with keys of the piece was last read
	streak int     // the number of consecutive pages, up to the last page read, that lay in one partition

	last  *key.Key // the last key read; nil before the first page
	outer trail    // the trail of partition keys
	inner trail    // the trail of row keys, if the last page or all unread keys lie in one partition
	ahead *ahead   // the estimate of the unread keys; nil if there is none yet
}

// NewPiece returns a piece for a range of partitions, or for a range of rows in one partition. The first query of the piece uses the same range.
func NewPiece(r key.Range) *Piece { return &Piece{End: r.End()} }

// Range returns the range of a piece's first query. The piece must have been cut from another piece. The range may
// extend beyond the piece's end.
func (s *Piece) Range() key.Range {
	if s.from.Row != "" { // the piece is in one partition
		r := key.Range{Partition: &s.from.Partition, Low: &key.Bound{Key: s.from.Row}}
		if s.End != nil && s.End.Partition == s.from.Partition {
			r.High = upTo(s.End.Row)
		}
		return r
	}
	r := key.Range{Low: &key.Bound{Key: s.from.Partition}}
	if p, ok := strings.CutSuffix(s.from.Partition, "\x00"); ok { // see upTo
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

// upTo returns an open bound at a key. But if the key is k\x00, upTo returns a closed bound at k, because the service refuses control characters
// in keys. Both bounds include the same keys, because no key lies between k and k\x00.
func upTo(end string) *key.Bound {
	if k, ok := strings.CutSuffix(end, "\x00"); ok {
		return &key.Bound{Key: k}
	}
	return &key.Bound{Key: end, Open: true}
}

// noteTheft records in s whether the thief has rows. The thief is a piece that was cut from s (see [Theft]).
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

// inLastPartition reports whether all unread keys lie in the partition of the last key read.
func (s *Piece) inLastPartition() bool {
	return s.End != nil && s.End.Compare(key.BehindPartition(s.last.Partition)) <= 0
}

func (s *Piece) endPartition() *string {
	if s.End == nil {
		return nil
	}
	return &s.End.Partition
}

// endRow returns the row key where the piece ends within the partition of the last key read, or nil.
func (s *Piece) endRow() *string {
	if s.End == nil || s.End.Partition != s.last.Partition {
		return nil
	}
	return &s.End.Row
}

// contains reports whether the key lies between the last key read and the piece's end.
func (s *Piece) contains(k key.Key) bool {
	return s.last.Compare(k) < 0 && (s.End == nil || k.Compare(*s.End) < 0)
}

// cut divides the unread keys of the piece at the cuts. Each new piece lies in one partition, or
// begins at the start of a partition, because a query cannot request any other range.
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

// add appends a thief to the theft. The thief begins at the key `from`. It inherits a part of the victim's trails; see trail.inherit.
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
