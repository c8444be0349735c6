package scan

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"slices"

	"tablesweep/internal/key"
)

// HintPages is the maximum number of full pages between two hints.
const HintPages = 6

// Hints show where a scan with the given bounds found the rows of a table. They contain the last key of about every sixth page: about 1,300 keys
// for a table of 8 million rows.
type Hints struct {
	Bounds key.Bounds `json:"bounds"`
	Keys   []key.Key  `json:"keys"` // in table order
	// Pages contains the number of full pages in each piece between hints. If rows are large, a page has fewer rows, and counts as a part of a full page.
	Pages []float64 `json:"pages"`
	// Share is the number of rows on a page of large rows, divided by the number of rows on a full page. Without large
	// rows, Share is 0.
	Share float64 `json:"share,omitempty"`
}

// PageEnd describes the rows that a step yielded from one page: the key of the last row, and the number of rows. [NewHints] makes hints from
// PageEnds.
type PageEnd struct {
	Last      key.Key
	Rows      int
	Failed    int `json:",omitempty"`      // the number of rows that could not be written
	Requested int `json:"Asked,omitempty"` // the number of requested rows, if the query requested less than a full page because rows are large; otherwise 0
}

// fullRows estimates how many rows the page would have if its query had requested a full page of `segment` rows. If the query requested only half a
// full page, because rows are large, the estimate is twice the number of the page's rows.
func (e PageEnd) fullRows(segment int) int {
	if e.Requested == 0 {
		return e.Rows
	}
	return max(e.Rows, e.Rows*segment/e.Requested)
}

// Thin returns at most the given number of ends, in table order. To do so, it merges neighbouring ends.
func Thin(ends []PageEnd, most int) []PageEnd {
	ends = sortedEnds(ends)
	pages := (len(ends) + most - 1) / most // the number of ends that are merged into one
	var thin []PageEnd
	for group := range slices.Chunk(ends, max(1, pages)) {
		end, most := PageEnd{Last: group[len(group)-1].Last}, 0
		for _, e := range group {
			if e.Rows > most {
				end.Requested, most = e.Requested, e.Rows
			}
			end.Rows += e.Rows
			end.Failed += e.Failed
		}
		thin = append(thin, end)
	}
	return thin
}

func sortedEnds(ends []PageEnd) []PageEnd {
	return slices.SortedFunc(slices.Values(ends), func(a, b PageEnd) int { return a.Last.Compare(b.Last) })
}

// withRows returns, in table order, the ends of those pages that contain rows.
func withRows(ends []PageEnd) []PageEnd {
	return slices.DeleteFunc(sortedEnds(ends), func(e PageEnd) bool { return e.Rows == 0 })
}

// NewHints makes hints from the ends of all pages of a scan, in any order. Pages without rows do not count. The argument `segment` is the number of
// rows of a full page.
func NewHints(b key.Bounds, ends []PageEnd, segment int) Hints {
	most := HintPages * segment
	h := Hints{Bounds: b, Share: shareOf(ends, segment)}
	ahead := 0        // rows since the last hint
	var edge *PageEnd // the previous page, if a partition begins on it and no hint lies at its end; otherwise nil
	for rest := withRows(ends); len(rest) > 0; {
		n, rows := 0, 0
		for n < len(rest) && rest[n].Last.Partition == rest[0].Last.Partition {
			rows += rest[n].fullRows(segment)
			n++
		}
		inside := rest[:n] // the pages that end in the same partition
		rest = rest[n:]
		if pieces := (2*rows/most + 1) / 2; pieces > 1 {
			h.divide(inside, rows, pieces, segment)
			ahead, edge = 0, nil
			continue
		}
		if ahead > 0 && ahead+rows > most {
			if edge == nil {
				edge = &inside[0]
			}
			h.Keys = append(h.Keys, edge.Last)
			ahead = 0
		}
		ahead += rows
		edge = nil
		if n == 1 && (len(h.Keys) == 0 || h.Keys[len(h.Keys)-1] != inside[0].Last) {
			edge = &inside[0]
		}
	}
	h.Weigh(ends, segment)
	return h
}

// shareOf returns the average number of rows on a page, divided by the number of rows on a full page. If no page was shortened by large rows, the
// result is 0.
func shareOf(ends []PageEnd, segment int) float64 {
	rows, full := 0, 0
	for _, e := range ends {
		rows, full = rows+e.Rows, full+e.fullRows(segment)
	}
	if rows == full {
		return 0
	}
	return float64(rows) / float64(full)
}

// divide adds hints that divide a partition of many pages into pieces of equal size.
func (h *Hints) divide(pages []PageEnd, rows, pieces, segment int) {
	h.Keys = append(h.Keys, pages[0].Last) // the partition's start is not known, so the end of its first page is used
	met := 0
	for i, e := range pages {
		was := met
		if met += e.fullRows(segment); i > 0 && i < len(pages)-1 && met*pieces/rows > was*pieces/rows {
			h.Keys = append(h.Keys, e.Last)
		}
	}
}

// Weigh sets Pages from the ends of all pages of a scan, in any order. A page belongs to the piece in which the page ends. If a page ends at a
// hint that divides a partition, the page belongs to the piece before the hint.
func (h *Hints) Weigh(ends []PageEnd, segment int) {
	pieces := h.Pieces(h.Bounds)
	h.Pages = make([]float64, len(pieces))
	i := 0
	for _, e := range withRows(ends) {
		for ; i < len(pieces)-1 && pieces[i].Side(e.Last) > 0; i++ {
			if p := pieces[i]; p.Partition != nil && p.High != nil && e.Last == (key.Key{Partition: *p.Partition, Row: p.High.Key}) {
				break
			}
		}
		h.Pages[i] += float64(e.Rows) / float64(segment)
	}
	for i, pages := range h.Pages {
		h.Pages[i] = math.Round(pages*1000) / 1000
	}
}

// Check returns an error if the hints do not fit the bounds, or are not sorted. With unsorted hints, a scan would lose rows.
func (h *Hints) Check(b key.Bounds) error {
	if h.Bounds != b {
		return errors.New("the hints were made for another range of keys")
	}
	r := b.Range()
	for i, k := range h.Keys {
		switch {
		case i > 0 && h.Keys[i-1].Compare(k) >= 0:
			return fmt.Errorf("hint %d is not greater than the hint before it", i)
		case !r.Contains(k):
			return fmt.Errorf("hint %d lies outside of the scan's range", i)
		}
	}
	return nil
}

// Pieces returns the ranges into which the hints divide a scan, or nil if the hints were made for other bounds. If a partition has one hint,
// a new range begins at the start of the partition. A partition with several hints is many pages long, and is divided by row keys.
func (h *Hints) Pieces(b key.Bounds) []key.Range {
	if h == nil || h.Bounds != b {
		return nil
	}
	whole := b.Range()
	var pieces []key.Range
	low := whole.Low
	until := func(high *key.Bound) { // ends the range of partitions that starts at `low`
		if r := (key.Range{Low: low, High: high}); !r.Empty() {
			pieces = append(pieces, r)
		}
	}
	for rest := h.Keys; len(rest) > 0; {
		partition, n := rest[0].Partition, 1
		for n < len(rest) && rest[n].Partition == partition {
			n++
		}
		inside := rest[:n]
		rest = rest[n:]
		if !whole.Contains(inside[0]) {
			continue
		}
		until(&key.Bound{Key: partition, Open: true})
		low = &key.Bound{Key: partition}
		if n > 1 {
			pieces = append(pieces, divide(partition, inside)...)
			low = &key.Bound{Key: partition, Open: true}
		}
	}
	until(whole.High)
	return pieces
}

// divide divides a partition at every hint except the first, because the first hint may lie close to the partition's start.
func divide(partition string, hints []key.Key) []key.Range {
	var pieces []key.Range
	var low *key.Bound
	for _, k := range hints[1:] {
		pieces = append(pieces, key.Range{Partition: &partition, Low: low, High: &key.Bound{Key: k.Row, Open: true}})
		low = &key.Bound{Key: k.Row}
	}
	return append(pieces, key.Range{Partition: &partition, Low: low})
}

// Sum returns a checksum of the hints.
func (h *Hints) Sum() uint64 {
	f := fnv.New64a()
	for _, k := range h.Keys { // keys are separated by a byte that no key contains
		for _, text := range []string{k.Partition, k.Row} {
			io.WriteString(f, text)
			f.Write([]byte{0xFF})
		}
	}
	return f.Sum64() >> 11 // small enough to be exact as a JSON number
}

// Due returns the number of pages in a piece.
func (h *Hints) Due(piece int) float64 {
	if piece < len(h.Pages) {
		return h.Pages[piece]
	}
	return HintPages
}
