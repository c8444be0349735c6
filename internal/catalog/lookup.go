package catalog

import (
	"cmp"
	"context"
	"time"

	"tablesweep/internal/catalog/store"
	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
)

const (
	// DefaultTop is how many records a query returns by default, MaxTop the most.
	DefaultTop = 100
	MaxTop     = 1000
	// fillTime is how long a query reads to fill its page. Then it returns what it has
	// found, and a cursor.
	fillTime = 10 * time.Second
	// maxEmpty is the most empty pages in a row that a query reads.
	maxEmpty = 20
)

// Lookup asks for records by index values.
type Lookup struct {
	// Keys holds the value of each index key that is asked for; all must match. A number
	// matches in every spelling.
	Keys map[string]string
	// Or holds further values of some of these keys: a record matches if it has one of a
	// key's values. Writes refuse it.
	Or map[string][]string
	// RowFrom and RowTo bound the sort value; see [index.Schema.Window].
	RowFrom, RowTo string
	Top            int    // 1 to MaxTop; 0 means DefaultTop
	Cursor         string // of the page before; "" for the first page
}

// Matches is one page of the records that a query has found, in the catalog's order.
type Matches struct {
	Records []record.Record
	Meta    []Meta // of each record
	// Cursor, if not "", gets the next page. A page may have fewer records than asked for,
	// or none, and still have a cursor: reading takes at most about ten seconds.
	Cursor string
}

// Find returns the records that the query asks for. It makes one request for each value of
// an index key, all at once, and more if it has to read more than 1,000 rows.
func (c *Catalog) Find(ctx context.Context, q Lookup) (Matches, error) {
	found, next, err := c.find(ctx, q, nil)
	r := Matches{Cursor: next, Records: make([]record.Record, len(found)), Meta: make([]Meta, len(found))}
	for i, f := range found {
		r.Records[i], r.Meta[i] = f.record, f.meta()
	}
	return r, err
}

// selectOne returns the only record that the query finds, nil for none. Several are a
// Conflict.
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
	return nil, problem.Conflictf("", "the query string finds several records; add other index keys, or row_from and row_to")
}

// Get returns the record with an ID, and its current Meta. It costs two requests.
func (c *Catalog) Get(ctx context.Context, id string) (record.Record, Meta, error) {
	absent := problem.NotFoundf("", "there is no record with this id; it was deleted, or its index values or its sort value have changed")
	first, identity, ok := splitID(id)
	if !ok {
		return record.Record{}, Meta{}, absent
	}
	checked := c.checking(ctx)
	for range maxRaces {
		h, err := c.ReadHead(ctx, first, identity)
		if err := cmp.Or(checked(), err); err != nil {
			return record.Record{}, Meta{}, err
		}
		if !h.Live() {
			return record.Record{}, Meta{}, absent
		}
		row, found, err := c.Index.Get(ctx, key.Key{Partition: h.Partitions[0], Row: h.Row})
		if err == nil && (!found || row.Get(store.IdentityColumn) != identity || row.Int(store.VersionColumn) != h.Version) {
			// A write is under way. Its entry has the record.
			row, found, err = c.RecordedRow(ctx, store.ShardOf(first), h.Entry)
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
