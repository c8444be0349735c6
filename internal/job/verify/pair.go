package verify

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"tablesweep/internal/job/sweep"
	"tablesweep/internal/key"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
	"tablesweep/internal/task/memory"
)

// pair reads two tables as one, which has the rows of either. A row that differs has a
// verdict, and the ETag that the destination's row has, "" if it has none.
//
// A page is merged from a page of each table, up to where one of them ends. What the other has
// behind that is held for the next query, which asks for more of a table if less than
// a page of it is held. So tables that are alike cost a query a page each, both at once, and
// the rows held are less than two pages of each table.
//
// The token of such a page has the tokens of both tables, and the last row merged. What
// is held is for speed alone: it can be read again from there, after a resume or if there
// was no room for it.
type pair struct {
	places [2]storage.Source // source and destination
	limit  *storage.Limit    // of the destination's rows; that of the source's comes with the options
	depth  Depth
	only   string // see Options

	budget *memory.Budget // what is held takes its part of it; nil for no limit
	mu     sync.Mutex     // guards the following
	held   map[key.Token]*position
	order  []key.Token // of held, the oldest first; may name some that are gone
	bytes  int64       // of held
	most   func() int64
}

// Pair returns a source that has the rows of two places, for whoever reads its pages one after the other. It holds at most so many bytes.
// They are a part of the budget, and what does not get one is read again. only, if set, is a filter without "or" of the first one's rows.
// [Differences] tells what its rows are.
func Pair(source, destination storage.Source, depth Depth, only string, most int64, budget *memory.Budget) storage.Source {
	p := newPair(source, destination, Options{Depth: depth, Only: only}, func() int64 { return most })
	p.budget = budget
	return p
}

func newPair(source, destination storage.Source, o Options, most func() int64) *pair {
	return &pair{places: [2]storage.Source{source, destination}, depth: o.Depth, only: o.Only, held: map[key.Token]*position{}, most: most}
}

// heldTime is how long rows that are a part of a budget are held at most: the step that goes on there may be another process's.
const heldTime = 5 * time.Second

// position is where in the range of a query the next page begins.
type position struct {
	sides [2]side
	after *key.Key     // the last row merged, nil for none
	part  *memory.Part // for the rows that are held
}

// side is a position in one table.
type side struct {
	sideMark
	held []rest // not merged; none is empty
}

// sideMark is what a token has of it.
type sideMark struct {
	Token *key.Token `json:"t,omitempty"` // of the next query, nil for the first
	Ended bool       `json:"e,omitempty"` // there is no next query
}

// rest is what is left of a page.
type rest struct {
	token *key.Token // of the page's query
	rows  []storage.Row
	bytes int // of memory, of the whole page: the rows keep it
}

// bookmark is a position as a token has it.
type bookmark struct {
	Sides [2]sideMark `json:"s"`
	After *key.Key    `json:"a,omitempty"`
}

// Address implements [storage.Source].
func (p *pair) Address() string { return p.places[0].Address() + " and " + p.places[1].Address() }

// Read implements [storage.Source] by a query of each table, unless enough of it is held.
func (p *pair) Read(ctx context.Context, o storage.RequestOptions, q storage.Query) (page storage.Page, queries int, err error) {
	at, err := p.take(q.Token)
	if err != nil {
		return page, 0, err
	}
	var answers [2]*storage.Page
	g, ctx := task.WithContext(ctx)
	for i := range at.sides {
		s := &at.sides[i]
		if s.Ended || s.rows() >= cmp.Or(q.Top, storage.PageRows) {
			continue
		}
		queries++
		g.Go(func() error {
			of := q
			of.Token = s.Token
			o := o
			if i == 1 {
				o.Rows = p.limit
			} else if p.only != "" {
				of.Filter = storage.And(p.only, q.Filter)
			}
			answer, _, err := p.places[i].Read(ctx, o, of)
			answers[i] = &answer
			if err != nil {
				return fmt.Errorf("read the %s: %w", [...]string{"source", "destination"}[i], err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return page, queries, err
	}
	for i, a := range answers {
		if a != nil {
			at.sides[i].add(*a, at.after)
			page.Bytes += a.Bytes
		}
	}
	page.Rows = at.merge(p.depth)
	page.Next = p.hold(at)
	return page, queries, nil
}

// take returns the position of a token, with the rows that are held there.
func (p *pair) take(token *key.Token) (*position, error) {
	if token == nil {
		return &position{}, nil
	}
	p.mu.Lock()
	at := p.held[*token]
	p.forget(*token)
	p.mu.Unlock()
	if at != nil {
		return at, nil
	}
	var from bookmark
	if err := json.Unmarshal([]byte(token.Partition), &from); err != nil {
		return nil, fmt.Errorf("the token %.100q is not one of a comparison", token.Partition)
	}
	at = &position{after: from.After}
	for i, s := range from.Sides {
		at.sides[i] = side{sideMark: s}
	}
	return at, nil
}

// hold returns the token of a position, nil at the end, and holds its rows if there is
// room.
func (p *pair) hold(at *position) *key.Token {
	from := bookmark{After: at.after}
	bytes := int64(0)
	for i, s := range at.sides {
		from.Sides[i] = s.sideMark
		if len(s.held) > 0 {
			from.Sides[i] = sideMark{Token: s.held[0].token}
		}
		bytes += s.bytes()
	}
	if bytes == 0 && at.sides[0].Ended && at.sides[1].Ended {
		return nil
	}
	text, err := json.Marshal(from)
	if err != nil {
		panic("verify: internal error: " + err.Error())
	}
	token := key.Token{Partition: string(text)}
	most := p.most()
	if bytes == 0 || bytes > most {
		return &token
	}
	part, ok := p.budget.TryTake(bytes)
	if !ok {
		return &token
	}
	at.part = part
	p.mu.Lock()
	defer p.mu.Unlock()
	if part != nil { // others may wait for what nobody asks for any more
		time.AfterFunc(heldTime, func() { p.outdate(token, at) })
	}
	p.forget(token) // of a page that was read twice
	p.held[token] = at
	p.order = append(p.order, token)
	p.bytes += bytes
	for p.bytes > most { // the oldest are those that nobody will ask for
		p.forget(p.order[0])
		p.order = p.order[1:]
	}
	if len(p.order) > 2*len(p.held)+100 {
		p.order = slices.DeleteFunc(p.order, func(t key.Token) bool { return p.held[t] == nil })
	}
	return &token
}

// holds returns how many bytes are held.
func (p *pair) holds() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bytes
}

// outdate drops what is held at a token, if it still is.
func (p *pair) outdate(token key.Token, at *position) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held[token] == at {
		p.forget(token)
	}
}

// forget drops what is held.
func (p *pair) forget(token key.Token) {
	if at := p.held[token]; at != nil {
		at.part.Release()
		p.bytes -= at.sides[0].bytes() + at.sides[1].bytes()
		delete(p.held, token)
	}
}

func (s *side) rows() (n int) {
	for _, one := range s.held {
		n += len(one.rows)
	}
	return n
}

func (s *side) bytes() (n int64) {
	for _, one := range s.held {
		n += int64(one.bytes)
	}
	return n
}

// add takes in the answer to the next query. Rows up to after were merged before.
func (s *side) add(a storage.Page, after *key.Key) {
	rows := a.Rows
	for after != nil && len(rows) > 0 && rows[0].Key.Compare(*after) <= 0 {
		rows = rows[1:]
	}
	if len(rows) > 0 {
		s.held = append(s.held, rest{s.Token, rows, sweep.Weight(a)})
	}
	s.Token, s.Ended = a.Next, a.Next == nil
}

// peek returns the next row, nil if none is held.
func (s *side) peek() *storage.Row {
	if len(s.held) == 0 {
		return nil
	}
	return &s.held[0].rows[0]
}

func (s *side) pop() {
	first := &s.held[0]
	if first.rows = first.rows[1:]; len(first.rows) == 0 {
		s.held = s.held[1:]
	}
}

// merge takes rows up to where it is not known what comes next.
func (at *position) merge(depth Depth) (rows []storage.Row) {
	a, b := &at.sides[0], &at.sides[1]
	for {
		x, y := a.peek(), b.peek()
		if x == nil && !a.Ended || y == nil && !b.Ended || x == nil && y == nil {
			break
		}
		order := 0 // of x and y
		switch {
		case y == nil:
			order = -1
		case x == nil:
			order = 1
		default:
			order = x.Key.Compare(y.Key)
		}
		switch {
		case order < 0:
			rows = append(rows, verdict{kind: sweep.Missing}.of(x.WithETag("")))
		case order > 0:
			rows = append(rows, verdict{kind: sweep.Extra}.of(*y))
		default:
			row := *x
			if detail := compare(*x, *y, depth); detail != "" {
				row = verdict{sweep.Different, detail}.of(row.WithETag(y.ETag()))
			}
			rows = append(rows, row)
		}
		if order <= 0 {
			a.pop()
		}
		if order >= 0 {
			b.pop()
		}
	}
	if len(rows) > 0 {
		last := rows[len(rows)-1].Key.Clone()
		at.after = &last
	}
	return rows
}
