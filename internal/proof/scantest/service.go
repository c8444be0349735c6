package scantest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"unicode/utf8"

	"tablesweep/internal/key"
	"tablesweep/internal/split/scan"
)

// Service answers the queries of one scan of a case's table. It behaves like the Table service at its worst: pages with a token may be short or empty, and
// after a token there may be no more rows.
type Service struct {
	rows     []key.Key // sorted, distinct
	segment  int       // the number of rows in a full page
	faulty   bool
	volatile []key.Key // rows that are inserted and deleted
	rand     *rand.Rand
	issued   map[string]bool // the tokens that the service issued, each with its range
}

// Open returns the service of a case.
func (c Case) Open(r *rand.Rand) *Service {
	return &Service{
		rows: slices.Clone(c.Rows), segment: c.Segment, faulty: c.Faulty, volatile: c.volatile(), rand: r, issued: map[string]bool{},
	}
}

// Query answers a step, and then inserts and deletes some of the volatile rows. It refuses a token that it did not issue for
// exactly the step's range, because the effect of a token in another query is undocumented.
func (t *Service) Query(s scan.Step) (scan.Page, error) {
	if err := validRange(s.Range); err != nil {
		return scan.Page{}, err
	}
	if s.Token != nil && !t.issued[issue(s.Range, *s.Token)] {
		return scan.Page{}, fmt.Errorf("the token %s was not issued for the range %s", text(s.Token), text(s.Range))
	}
	first := sort.Search(len(t.rows), func(i int) bool {
		return s.Range.Side(t.rows[i]) >= 0 && (s.Token == nil || t.rows[i].Compare(key.Key{Partition: s.Token.Partition, Row: s.Token.Row}) >= 0)
	})
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
	case t.faulty && n > 0 && t.rand.IntN(4) == 0: // no row follows
		last := p.Last()
		p.Next = &key.Token{Partition: last.Partition, Row: last.Row + "\x00"}
	}
	if p.Next != nil {
		t.issued[issue(s.Range, *p.Next)] = true
	}
	t.churn()
	return p, nil
}

// token returns a token for the next row. If a new partition starts with this row, the token may lack the row key.
func (t *Service) token(page []key.Key, next key.Key) *key.Token {
	token := key.Token{Partition: next.Partition, Row: next.Row}
	if len(page) > 0 && page[len(page)-1].Partition != next.Partition && t.rand.IntN(2) == 0 {
		token.Row = ""
	}
	return &token
}

// churn inserts and deletes some of the volatile rows.
func (t *Service) churn() {
	for range len(t.volatile) / 4 {
		k := t.volatile[t.rand.IntN(len(t.volatile))]
		i, there := slices.BinarySearchFunc(t.rows, k, key.Key.Compare)
		switch comes := t.rand.IntN(2) == 0; {
		case comes && !there:
			t.rows = slices.Insert(t.rows, i, k)
		case !comes && there:
			t.rows = slices.Delete(t.rows, i, i+1)
		}
	}
}

func issue(r key.Range, token key.Token) string { return text(r) + text(token) }

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("scantest: internal error: " + err.Error())
	}
	return string(b)
}

// validRange refuses bounds that a filter cannot contain.
func validRange(r key.Range) error {
	for _, b := range []*key.Bound{r.Low, r.High} {
		if b != nil && !utf8.ValidString(b.Key) {
			return fmt.Errorf("range %s has a bound that is not valid UTF-8: %q", text(r), b.Key)
		}
	}
	return nil
}
