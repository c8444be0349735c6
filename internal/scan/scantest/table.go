package scantest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"unicode/utf8"

	"tablesweep/internal/key"
	"tablesweep/internal/scan"
)

// table answers queries as the Table service may at its worst: pages come short
// or empty and still carry a token, and a token may have nothing behind it.
type table struct {
	rows    []key.Key // sorted, distinct
	segment int       // rows in a full page
	faulty  bool
	rand    *rand.Rand
	issued  map[string]bool // range and token of every token handed out
}

// query answers one step. It refuses a token that it did not issue for the very
// range of the step: continuing another query with it is undocumented.
func (t *table) query(s scan.Step) (scan.Page, error) {
	if err := validRange(s.Range); err != nil {
		return scan.Page{}, err
	}
	first := sort.Search(len(t.rows), func(i int) bool { return !before(t.rows[i], s) })
	end := first
	for end < len(t.rows) && end <= first+t.segment && s.Range.Contains(t.rows[end]) {
		end++
	}
	n := min(t.segment, end-first)
	if t.faulty && t.rand.IntN(4) == 0 {
		n = t.rand.IntN(n + 1)
	}
	p := scan.Page{Keys: slices.Clone(t.rows[first : first+n])}
	switch {
	case first+n < end:
		p.Next = t.token(p.Keys, t.rows[first+n])
	case t.faulty && n > 0 && t.rand.IntN(4) == 0: // nothing behind
		last := p.Last()
		p.Next = &key.Token{Partition: last.Partition, Row: last.Row + "\x00"}
	}
	if p.Next != nil {
		t.issued[issue(s.Range, *p.Next)] = true
	}
	return p, nil
}

// token names the next row. Where the page shows that a new partition starts
// with it, the row key may be left out.
func (t *table) token(page []key.Key, next key.Key) *key.Token {
	token := key.Token(next)
	if len(page) > 0 && page[len(page)-1].Partition != next.Partition && t.rand.IntN(2) == 0 {
		token.Row = ""
	}
	return &token
}

// insert adds the row unless it is there.
func (t *table) insert(k key.Key) {
	if i, found := slices.BinarySearchFunc(t.rows, k, key.Key.Compare); !found {
		t.rows = slices.Insert(t.rows, i, k)
	}
}

// remove deletes the row if it is there.
func (t *table) remove(k key.Key) {
	if i, found := slices.BinarySearchFunc(t.rows, k, key.Key.Compare); found {
		t.rows = slices.Delete(t.rows, i, i+1)
	}
}

func issue(r key.Range, token key.Token) string {
	return text(r) + text(token)
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("scantest: internal error: " + err.Error())
	}
	return string(b)
}

// validRange refuses bounds that no filter can carry.
func validRange(r key.Range) error {
	for _, b := range []*key.Bound{r.Low, r.High} {
		if b != nil && !utf8.ValidString(b.Key) {
			return fmt.Errorf("range %s has a bound that is not valid UTF-8: %q", text(r), b.Key)
		}
	}
	return nil
}

// before reports whether the row lies ahead of everything the step may read.
func before(k key.Key, s scan.Step) bool {
	if s.Token != nil && k.Compare(key.Key(*s.Token)) < 0 {
		return true
	}
	r, v := s.Range, k.Partition
	if r.Partition != nil {
		if c := key.Compare(k.Partition, *r.Partition); c != 0 {
			return c < 0
		}
		v = k.Row
	}
	if r.Low == nil {
		return false
	}
	c := key.Compare(v, r.Low.Key)
	return c < 0 || c == 0 && r.Low.Open
}
