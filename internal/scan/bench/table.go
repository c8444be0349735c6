package bench

import (
	"sort"

	"tablesweep/internal/key"
	"tablesweep/internal/scan"
)

// table answers queries from sorted, distinct keys. Its pages are full.
type table struct {
	keys []key.Key
	page int // rows of a full page
	// bounds are those of all scans. If every is set, a filter lets one row in so many through, and a page ends after
	// visits*page rows at the latest.
	bounds key.Bounds
	every  int
}

// visits is how many pages' rows a filtered query goes through at most. The service gives no number; it stops after 5 seconds.
const visits = 50

// Pages answers queries from sorted, distinct keys, by pages of so many rows.
func Pages(keys []key.Key, rows int) func(scan.Step) scan.Page {
	return table{keys: keys, page: rows}.query
}

// pages returns the number of queries that a serial scan takes.
func (t table) pages() int {
	n := 1
	for s := (scan.Step{Range: t.bounds.Range()}); ; n++ {
		p := t.query(s)
		if p.Next == nil {
			return n
		}
		s = s.Continue(*p.Next)
	}
}

// rows returns the number of rows that a scan yields.
func (t table) rows() int {
	first, end := t.span(t.bounds.Range())
	n := 0
	for i := first; i < end; i++ {
		if t.lets(i) {
			n++
		}
	}
	return n
}

// lets reports whether the filter lets a row through.
func (t table) lets(row int) bool {
	return t.every == 0 || uint64(row)*0x9E3779B97F4A7C15>>32%uint64(t.every) == 0
}

func (t table) query(s scan.Step) scan.Page {
	first, end := t.span(s.Range)
	if s.Token != nil {
		first = t.lower(key.Key(*s.Token))
	}
	p := scan.Page{}
	next := first + t.page
	if t.every == 0 {
		p.Keys = t.keys[first:min(end, next)]
	} else {
		for next = first; next < end && next < first+visits*t.page && len(p.Keys) < t.page; next++ {
			if t.lets(next) {
				p.Keys = append(p.Keys, t.keys[next])
			}
		}
	}
	if next < end {
		token := key.Token(t.keys[next])
		p.Next = &token
	}
	return p
}

// span returns the half-open interval of row numbers that lie in the range.
func (t table) span(r key.Range) (first, end int) {
	low, high := r.Low, r.High
	if r.Partition == nil {
		first, end = 0, len(t.keys)
		if low != nil {
			first = t.edge(key.Key{Partition: low.Key}, low.Open)
		}
		if high != nil {
			end = t.edge(key.Key{Partition: high.Key}, !high.Open)
		}
		return first, max(first, end)
	}
	first, end = t.edge(key.Key{Partition: *r.Partition}, false), t.edge(key.Key{Partition: *r.Partition}, true)
	if low != nil {
		first = t.lower(key.Key{Partition: *r.Partition, Row: behind(low.Key, low.Open)})
	}
	if high != nil {
		end = t.lower(key.Key{Partition: *r.Partition, Row: behind(high.Key, !high.Open)})
	}
	return first, max(first, end)
}

// edge returns the number of the partition's first row, or of the first row
// behind the partition.
func (t table) edge(k key.Key, open bool) int {
	return t.lower(key.Key{Partition: behind(k.Partition, open)})
}

// behind returns the next possible key if open is set, else the key itself.
func behind(k string, open bool) string {
	if open {
		return k + "\x00"
	}
	return k
}

func (t table) lower(k key.Key) int {
	return sort.Search(len(t.keys), func(i int) bool { return t.keys[i].Compare(k) >= 0 })
}
