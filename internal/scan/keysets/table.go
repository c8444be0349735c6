package keysets

import (
	"sort"

	"tablesweep/internal/key"
	"tablesweep/internal/scan"
)

// Table answers queries from sorted, distinct keys. Its pages are full.
type Table struct {
	Keys []key.Key
	Page int // rows of a full page
}

// Pages returns the number of queries that a serial scan takes.
func (t Table) Pages() int { return max(1, (len(t.Keys)+t.Page-1)/t.Page) }

// Query returns the page of a step.
func (t Table) Query(s scan.Step) scan.Page {
	first, end := t.within(s.Range)
	if s.Token != nil {
		first = t.lower(key.Key(*s.Token))
	}
	next := first + t.Page
	p := scan.Page{Keys: t.Keys[first:min(end, next)]}
	if next < end {
		token := key.Token(t.Keys[next])
		p.Next = &token
	}
	return p
}

// within returns the half-open interval of row numbers that lie in the range.
func (t Table) within(r key.Range) (first, end int) {
	low, high := r.Low, r.High
	if r.Partition == nil {
		first, end = 0, len(t.Keys)
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
func (t Table) edge(k key.Key, open bool) int {
	return t.lower(key.Key{Partition: behind(k.Partition, open)})
}

// behind returns the next possible key if open is set, else the key itself.
func behind(k string, open bool) string {
	if open {
		return k + "\x00"
	}
	return k
}

func (t Table) lower(k key.Key) int {
	return sort.Search(len(t.Keys), func(i int) bool { return t.Keys[i].Compare(k) >= 0 })
}
