package splitbench

import (
	"sort"

	"tablesweep/internal/key"
	"tablesweep/internal/scan"
)

// table answers queries from sorted, distinct keys. Its pages are full.
type table struct {
	keys []key.Key
	page int // rows of a full page
}

// Pages answers queries from sorted, distinct keys, by pages of so many rows.
func Pages(keys []key.Key, rows int) func(scan.Step) scan.Page {
	return table{keys: keys, page: rows}.query
}

// pages returns the number of queries that a serial scan takes.
func (t table) pages() int { return max(1, (len(t.keys)+t.page-1)/t.page) }

func (t table) query(s scan.Step) scan.Page {
	first, end := t.span(s.Range)
	if s.Token != nil {
		first = t.lower(key.Key(*s.Token))
	}
	p := scan.Page{Keys: t.keys[first:min(end, first+t.page)]}
	if first+t.page < end {
		next := scan.Token(t.keys[first+t.page])
		p.Next = &next
	}
	return p
}

// span returns the half-open interval of row numbers that lie in the range.
func (t table) span(r scan.Range) (first, end int) {
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
