package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/go-json-experiment/json"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
	"tablesweep/internal/scan"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

const (
	// DefaultTop is how many records a query returns, and MaxTop how many at most.
	DefaultTop = 100
	MaxTop     = 1000
	// maxPages is how many pages a query reads for one answer.
	maxPages = 20
)

// Query asks for the records of one index value.
type Query struct {
	// Keys holds the value wanted of each index key given; all must match. The
	// first of them in the schema's order selects the partition that is read.
	Keys map[string]string
	// RowFrom and RowTo bound the sort value; see [index.Schema.Window].
	RowFrom, RowTo string
	Top            int    // 1 to MaxTop; 0 means DefaultTop
	Cursor         string // goes on where the answer with this cursor ended
}

// Result is a query's answer, in the catalog's order.
type Result struct {
	Records []record.Record
	// Cursor, if not "", gets the records that follow. There may be fewer
	// records than asked for, or none, before the last.
	Cursor string
}

// plan is a query that was found to be right.
type plan struct {
	partition string
	others    map[string]string // further index keys, and the normalised values they must have
	window    index.Window
	top       int
	after     string // RowKey
	digest    string // of all that the cursor depends on
}

func (c *Catalog) plan(q Query) (plan, error) {
	p := plan{others: map[string]string{}, top: q.Top}
	var errs error
	for field, value := range q.Keys {
		partition, normalised, err := c.Schema.Partition(field, value)
		errs = errors.Join(errs, err)
		if err == nil {
			field = strings.ToLower(field)
			if _, twice := p.others[field]; twice {
				errs = errors.Join(errs, problem.Invalidf(field, "is given twice: give one value for an index key"))
			}
			p.others[field] = normalised
			if c.Schema.Rank(field) == c.firstOf(q.Keys) {
				p.partition = partition
			}
		}
	}
	if len(q.Keys) == 0 {
		errs = problem.Invalidf("", "give the value of an index key: %s", c.Schema.Fields())
	}
	if p.top == 0 {
		p.top = DefaultTop
	}
	if p.top < 1 || p.top > MaxTop {
		errs = errors.Join(errs, problem.Invalidf("top", "must be a number from 1 to %d", MaxTop))
	}
	var err error
	p.window, err = c.Schema.Window(q.RowFrom, q.RowTo)
	if errs = errors.Join(errs, err); errs != nil {
		return plan{}, errs
	}
	sum := sha256.Sum256([]byte(encode([]any{c.Schema.String(), p.others, q.RowFrom, q.RowTo})))
	p.digest = hex.EncodeToString(sum[:8])
	delete(p.others, strings.ToLower(c.Schema.Keys[c.firstOf(q.Keys)].Field))
	p.after, err = p.readCursor(q.Cursor)
	return p, err
}

// firstOf returns the place of the first of the keys in the schema.
func (c *Catalog) firstOf(keys map[string]string) int {
	first := len(c.Schema.Keys)
	for field := range keys {
		if rank := c.Schema.Rank(field); rank >= 0 {
			first = min(first, rank)
		}
	}
	return first
}

// cursor is what an answer's cursor says, in base64.
type cursor struct {
	Query string `json:"q"`
	After string `json:"a"`
}

func (p plan) writeCursor(after string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(encode(cursor{p.digest, after})))
}

func (p plan) readCursor(text string) (after string, err error) {
	if text == "" {
		return "", nil
	}
	var c cursor
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	if err != nil || c.Query != p.digest || c.After == "" {
		return "", problem.Invalidf("cursor", "is not one that this query returned: leave everything else as it was when you go on")
	}
	return c.After, nil
}

// Find returns the records that the query asks for. It costs one request, as long
// as no more than 1,000 rows of the partition have to be read for them.
func (c *Catalog) Find(ctx context.Context, q Query) (Result, error) {
	found, next, err := c.find(ctx, q, nil)
	r := Result{Cursor: next, Records: make([]record.Record, len(found))}
	for i, f := range found {
		r.Records[i] = f.record
	}
	return r, err
}

// match is a record that a query found, with its identity.
type match struct {
	record record.Record
	id     index.Identity
}

// find returns a page of what the query finds. gone, if not nil, is called for each
// row in its way that says that a record is gone.
func (c *Catalog) find(ctx context.Context, q Query, gone func(storage.Entity)) (found []match, next string, err error) {
	p, err := c.plan(q)
	if err != nil {
		return nil, "", err
	}
	after := p.after
	var token *scan.Token
	for n := range maxPages {
		span, more := p.window.Span(after)
		if !more {
			return found, "", nil
		}
		top := storage.PageRows
		if len(p.others) == 0 && n == 0 {
			top = p.top // if these are not enough, the others may be few and far between
		}
		page, err := c.Index.Query(ctx, storage.Query{Range: span.In(p.partition), Top: top, Token: token})
		if err != nil {
			return nil, "", fmt.Errorf("catalog %s: %w", c.Name, err)
		}
		token = page.Next
		for i, row := range page.Entities {
			after = row.Key.Row
			if row.Get(goneColumn) != "" {
				if gone != nil {
					gone(row)
				}
			} else if m, ok := c.match(p, row); ok {
				found = append(found, m)
			}
			if len(found) == p.top {
				if i < len(page.Entities)-1 || page.Next != nil {
					next = p.writeCursor(after)
				}
				return found, next, nil
			}
		}
		if page.Next == nil {
			return found, "", nil
		}
		if len(page.Entities) > 0 {
			token = nil // what lies between two parts of the window is passed over
		}
	}
	if after == "" {
		return nil, "", &problem.Error{Kind: problem.Busy, Detail: "the storage keeps sending empty pages; try again"}
	}
	return found, p.writeCursor(after), nil
}

// match reports whether the row is one that the query wants.
func (c *Catalog) match(p plan, row storage.Entity) (match, bool) {
	r := record.FromProperties(row.Properties)
	id, err := c.identify(r)
	if err != nil || !p.window.Contains(id.Sort) {
		return match{}, false // not a record's row: check reports it
	}
	for field, want := range p.others {
		if id.Values[c.Schema.Rank(field)] != want {
			return match{}, false
		}
	}
	return match{r, id}, true
}

// selectOne returns where the only record stands that the query finds.
func (c *Catalog) selectOne(ctx context.Context, q Query) (*wal.Write, error) {
	q.Top = 2
	var found []match
	for more := true; more && len(found) < 2; {
		page, next, err := c.find(ctx, q, nil)
		if err != nil {
			return nil, err
		}
		found = append(found, page...)
		q.Cursor, more = next, next != ""
	}
	switch {
	case len(found) == 0:
		return nil, &problem.Error{Kind: problem.NotFound, Detail: "there is no record that the query string finds"}
	case len(found) > 1:
		return nil, &problem.Error{Kind: problem.Conflict, Detail: "the query string finds several records: add other index keys, or row_from and row_to"}
	}
	w := writeFor(found[0].id)
	return &w, nil
}

// Delete deletes all records that the query finds, and returns how many these
// were. It also completes deletions that a crash has left half done. If the time that ctx gives is over first, the error says so; asking again goes on.
// The query's Top and Cursor must not be set.
func (c *Catalog) Delete(ctx context.Context, q Query) (int, error) {
	if err := c.Writable(ctx); err != nil {
		return 0, err
	}
	var deleted atomic.Int64
	q.Top = MaxTop
	for {
		var tombstones []storage.Entity
		found, next, err := c.find(ctx, q, func(row storage.Entity) { tombstones = append(tombstones, row) })
		if err == nil {
			g, ctx := task.WithContext(ctx)
			g.SetLimit(parallel)
			for _, m := range found {
				g.Go(func() error {
					gone, err := c.remove(ctx, m.id.First(), m.id.Hash(), m.record)
					if gone {
						deleted.Add(1)
					}
					return err
				})
			}
			for _, row := range tombstones {
				g.Go(func() error {
					h, err := c.readHead(ctx, row.Get(firstColumn), row.Get(identityColumn))
					if err != nil || h == nil || !h.Gone {
						return err
					}
					if err = c.complete(ctx, shardOf(h.First), h.Entry); hopeless(err) {
						return nil // nothing that this request could mend
					}
					return err
				})
			}
			err = g.Wait()
		}
		if err != nil && deleted.Load() > 0 {
			err = fmt.Errorf("after %d records were deleted: %w", deleted.Load(), err)
		}
		if err != nil || next == "" {
			return int(deleted.Load()), err
		}
		q.Cursor = next
	}
}
