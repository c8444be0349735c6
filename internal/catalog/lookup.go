package catalog

import (
	"cmp"
	"context"
	"time"

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
