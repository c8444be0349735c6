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
	first := t.first(func(k key.Key) bool {
		return s.Range.Side(k) >= 0 && (s.Token == nil || k.Compare(key.Key{Partition: s.Token.Partition, Row: s.Token.Row}) >= 0)
	})
	end := t.first(func(k key.Key) bool { return s.Range.Side(k) > 0 })
	next := first + t.Page
	p := scan.Page{Keys: t.Keys[first:min(end, next)]}
	if next < end {
		p.Next = &key.Token{Partition: t.Keys[next].Partition, Row: t.Keys[next].Row}
	}
	return p
}

// first returns the number of the first row from which on the condition holds.
func (t Table) first(holds func(key.Key) bool) int {
	return sort.Search(len(t.Keys), func(i int) bool { return holds(t.Keys[i]) })
}
