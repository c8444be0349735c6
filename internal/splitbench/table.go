package splitbench

import (
	"sort"

	"tablesweep/internal/key"
	"tablesweep/internal/scan"
)

// segment is the number of rows in a full page, the service's largest.
const segment = 1000

// table answers queries from sorted, distinct keys. Its pages are full.
type table []key.Key

func (t table) query(s scan.Step) scan.Page {
	first, end := t.span(s.Range)
	if s.Token != nil {
		first = t.lower(key.Key(*s.Token))
	}
	p := scan.Page{Keys: t[first:min(end, first+segment)]}
	if first+segment < end {
		next := scan.Token(t[first+segment])
		p.Next = &next
	}
	return p
}

// span returns the half-open interval of row numbers that lie in the range.
func (t table) span(r scan.Range) (first, end int) {
	low, high := r.Low, r.High
	if r.Partition == nil {
		first, end = 0, len(t)
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
	return sort.Search(len(t), func(i int) bool { return t[i].Compare(k) >= 0 })
}
