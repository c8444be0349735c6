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

// pair reads two tables as if they were a single table with the rows of both. If a row differs between the two tables,
// its note contains a verdict, which describes the difference. The ETag of such a row is the ETag of the destination's
// row, or "" if the destination has no row with this key.
//
// A merged page is made from a page of each table, and ends where one of these two pages ends. The remaining rows of the other page are held for the
// next query. The next query reads from a table only if pair holds less than a page of this table's rows. So if the tables are equal, a merged page
// takes one query of each table, and both queries run concurrently. At any time, less than two pages of each table's rows are held.
//
// The token of a merged page contains the tokens of both tables, and the key of the last merged row. After a resume, or if there was no memory to
// hold the remaining rows, pair uses the token to read these rows again.
type pair struct {
	places [2]storage.Source // source and destination
	limit  *storage.Limit    // limits the destination's rows per second; the source's limit is in the request options
	depth  Depth
	only   string // see [Options].Only

	budget *memory.Budget // the memory for held rows; nil for no limit
	mu     sync.Mutex     // guards the fields below
	held   map[key.Token]*position
	order  []key.Token // the keys of `held` in the order in which they were added; keys that were deleted from `held` may remain here
	bytes  int64       // bytes of the held rows
	most   func() int64
}

// Pair returns a [storage.Source] with the rows of two places. Its pages should be read one after another, because each query keeps in memory the
// rows that the next query will need. The memory comes from the budget, and the argument `most` is the maximum size of these rows, in bytes. If
// there is no memory for the rows, the next query reads them again. The argument `filter` applies only to the rows of `source`; it must not contain
// "or", and "" selects all rows. [Differences] interprets the rows.
func Pair(source, destination storage.Source, depth Depth, filter string, most int64, budget *memory.Budget) storage.Source {
	p := newPair(source, destination, Options{Depth: depth, Only: filter}, func() int64 { return most })
	p.budget = budget
	return p
}

func newPair(source, destination storage.Source, o Options, most func() int64) *pair {
	return &pair{places: [2]storage.Source{source, destination}, depth: o.Depth, only: o.Only, held: map[key.Token]*position{}, most: most}
}

// heldTime is the longest time for which a budget's memory holds rows for the next query. The time is limited, because the
// next step may run in another process, which does not use these rows.
const heldTime = 5 * time.Second

// position is the point within a query's range at which the next page begins.
type position struct {
	sides [2]side
	after *key.Key     // the key of the last merged row; nil for none
	part  *memory.Part // the memory of the held rows
}

// side is a position in one table.
type side struct {
	sideMark
	held []rest // rows of pages that are not yet merged; no element is empty
}

// sideMark is the part of a side that is stored in a token.
type sideMark struct {
	Token *key.Token `json:"t,omitempty"` // the token of the next query; nil for the first query
	Ended bool       `json:"e,omitempty"` // set if there is no next query
}

// rest holds the rows of a page that are not yet merged.
type rest struct {
	token *key.Token // the token of the page's query
	rows  []storage.Row
	bytes int // bytes of memory that the whole page uses, because the rows keep the page in memory
}

// bookmark is a position in the form that a token stores.
type bookmark struct {
	Sides [2]sideMark `json:"s"`
	After *key.Key    `json:"a,omitempty"`
}

// Address implements [storage.Source].
func (p *pair) Address() string { return p.places[0].Address() + " and " + p.places[1].Address() }

// Read implements [storage.Source]. It makes a query of each table, unless enough rows of that table are held.
func (p *pair) Read(ctx context.Context, o storage.RequestOptions, q storage.Query) (page storage.Page, queries int, err error) {
	at, err := p.positionOf(q.Token)
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
				of.Filter = storage.CombineFilters(p.only, q.Filter)
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

// positionOf returns the position of a token, with the rows that are held for that position.
func (p *pair) positionOf(token *key.Token) (*position, error) {
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
		return nil, fmt.Errorf("the token %.100q does not belong to a comparison", token.Partition)
	}
	at = &position{after: from.After}
	for i, s := range from.Sides {
		at.sides[i] = side{sideMark: s}
	}
	return at, nil
}

// hold returns the token of a position, or nil if no rows follow. If there is room, hold keeps the position's rows in memory.
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
	if part != nil { // frees the memory of rows that nobody has used within heldTime
		time.AfterFunc(heldTime, func() { p.expire(token, at) })
	}
	p.forget(token) // if the page was read twice, rows are already held for this token
	p.held[token] = at
	p.order = append(p.order, token)
	p.bytes += bytes
	for p.bytes > most { // forgets the oldest rows first, because they are the least likely to be read
		p.forget(p.order[0])
		p.order = p.order[1:]
	}
	if len(p.order) > 2*len(p.held)+100 {
		p.order = slices.DeleteFunc(p.order, func(t key.Token) bool { return p.held[t] == nil })
	}
	return &token
}

func (p *pair) heldBytes() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bytes
}

// expire drops a position and its rows, if `held` still contains this position.
func (p *pair) expire(token key.Token, at *position) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held[token] == at {
		p.forget(token)
	}
}

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

// add adds the page that answers the side's next query. It leaves out the rows up to the key in the argument `after`, because they have already been merged.
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

// merge merges the held rows of both sides. It stops when one side has no held rows left, but the side's table has further rows.
func (at *position) merge(depth Depth) (rows []storage.Row) {
	a, b := &at.sides[0], &at.sides[1]
	for {
		x, y := a.peek(), b.peek()
		if x == nil && !a.Ended || y == nil && !b.Ended || x == nil && y == nil {
			break
		}
		order := 0 // the order of the keys of x and y
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
