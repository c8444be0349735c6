package catalog

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
)

const (
	// DefaultTop is how many records a query returns, and MaxTop how many at most.
	DefaultTop = 100
	MaxTop     = 1000
	// fillTime is how long a query reads on for one answer. What it has found then is
	// the answer, with a cursor.
	fillTime = 10 * time.Second
	// maxEmpty is how many pages without a row, one after the other, are borne with.
	maxEmpty = 20
)

// Lookup asks for the records of one index value.
type Lookup struct {
	// Keys holds the value wanted of each index key given; all must match. A number
	// is found however it is spelt.
	Keys map[string]string
	// Or holds further values of some of these keys, for reading: any of a key's values
	// will do.
	Or map[string][]string
	// RowFrom and RowTo bound the sort value; see [index.Schema.Window].
	RowFrom, RowTo string
	Top            int    // 1 to MaxTop; 0 means DefaultTop
	Cursor         string // goes on where the answer with this cursor ended
}

// Result is a query's answer, in the catalog's order.
type Result struct {
	Records []record.Record
	Meta    []Meta // of each record
	// Cursor, if not "", gets the records that follow. There may be fewer records
	// than asked for, or none, before the last, if the time for one answer is over.
	Cursor string
}

// plan is a query that was found to be right.
type plan struct {
	keys   []wanted // in the schema's order
	window index.Window
	top    int
	after  string // RowKey
	digest string // of all that the cursor depends on
}

// wanted is an index key, and where it has the values that a query asks for.
type wanted struct {
	rank   int
	places []index.Place
}

func (w wanted) value(value string) bool {
	return slices.ContainsFunc(w.places, func(p index.Place) bool { return p.Value == value })
}

func (c *Catalog) plan(q Lookup) (plan, error) {
	var errs error
	if len(q.Keys) == 0 {
		errs = problem.Invalidf("", "give the value of an index key: %s", c.Schema.Fields())
	}
	var keys []wanted
	for _, field := range slices.Sorted(maps.Keys(q.Keys)) {
		k, err := c.wanted(field, append([]string{q.Keys[field]}, q.Or[field]...))
		if err == nil && slices.ContainsFunc(keys, func(other wanted) bool { return k.rank == other.rank }) {
			err = problem.Invalidf(field, "is given twice: give one value for an index key")
		}
		keys, errs = append(keys, k), errors.Join(errs, err)
	}
	slices.SortFunc(keys, func(a, b wanted) int { return a.rank - b.rank })
	return c.planOf(q, keys, errs)
}

// wanted returns where an index key has the values.
func (c *Catalog) wanted(field string, values []string) (wanted, error) {
	k := wanted{rank: c.Schema.Rank(field)}
	for _, value := range values {
		places, err := c.Schema.Places(field, value)
		if err != nil {
			return k, err
		}
		for _, p := range places {
			if !slices.Contains(k.places, p) {
				k.places = append(k.places, p)
			}
		}
	}
	return k, nil
}

// planOf completes a plan. errs is what is wrong with the query already.
func (c *Catalog) planOf(q Lookup, keys []wanted, errs error) (plan, error) {
	p := plan{keys: keys, top: cmp.Or(q.Top, DefaultTop)}
	if p.top < 1 || p.top > MaxTop {
		errs = errors.Join(errs, problem.Invalidf("top", "must be a number from 1 to %d", MaxTop))
	}
	var err error
	p.window, err = c.Schema.Window(q.RowFrom, q.RowTo)
	if errs = errors.Join(errs, err); errs != nil {
		return plan{}, errs
	}
	values := map[string]any{}
	for _, k := range p.keys {
		all := []string{k.places[0].Value}
		for _, place := range k.places[1:] {
			all = append(all, place.Value)
		}
		values[strings.ToLower(c.Schema.Keys[k.rank].Field)] = all
	}
	sum := sha256.Sum256([]byte(encode([]any{c.Schema.String(), values, q.RowFrom, q.RowTo})))
	p.digest = hex.EncodeToString(sum[:8])
	p.after, err = p.readCursor(q.Cursor)
	return p, err
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

// Find returns the records that the query asks for. It costs a request for each index
// key given, all at once, as long as no more than 1,000 rows have to be read for them.
func (c *Catalog) Find(ctx context.Context, q Lookup) (Result, error) {
	found, next, err := c.find(ctx, q, nil)
	r := Result{Cursor: next, Records: make([]record.Record, len(found)), Meta: make([]Meta, len(found))}
	for i, f := range found {
		r.Records[i], r.Meta[i] = f.record, f.meta()
	}
	return r, err
}

// selectOne returns the only record that the query finds, nil if it finds none.
func (c *Catalog) selectOne(ctx context.Context, q Lookup) (*match, error) {
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
	switch len(found) {
	case 0:
		return nil, nil
	case 1:
		return &found[0], nil
	}
	return nil, problem.Conflictf("", "the query string finds several records: add other index keys, or row_from and row_to")
}

// Get returns the record of an ID, and what it has now. It costs two requests.
func (c *Catalog) Get(ctx context.Context, id string) (record.Record, Meta, error) {
	absent := problem.NotFoundf("", "there is no record with this id: it is deleted, or has other index values or another sort value")
	first, identity, ok := splitID(id)
	if !ok {
		return record.Record{}, Meta{}, absent
	}
	checked := c.checking(ctx)
	for range maxRaces {
		h, err := c.readHead(ctx, first, identity)
		if err := cmp.Or(checked(), err); err != nil {
			return record.Record{}, Meta{}, err
		}
		if !h.live() {
			return record.Record{}, Meta{}, absent
		}
		row, found, err := c.Index.Get(ctx, key.Key{Partition: h.Partitions[0], Row: h.Row})
		if err == nil && (!found || row.Get(identityColumn) != identity || row.Int(versionColumn) != h.Version) {
			// A write is under way, and its entry has the record.
			row, found, err = c.recordedRow(ctx, shardOf(first), h.Entry)
		}
		if err != nil {
			return record.Record{}, Meta{}, err
		}
		if r := record.FromProperties(row.Properties); found && r.Hash() == h.Content {
			return r, metaOf(h.Write), nil
		}
	}
	return record.Record{}, Meta{}, c.busy()
}
