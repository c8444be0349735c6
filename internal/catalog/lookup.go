package catalog

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"tablesweep/internal/catalog/store"
	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
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
			row, found, err = c.Recorded(ctx, store.ShardOf(first), h.Entry)
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

// List returns all records whose sort value is in the query's window, sorted by the text of
// the first index key. The query has no Keys. It costs one request for each 1,000 rows of
// the first index key.
func (c *Catalog) List(ctx context.Context, q Lookup) (Matches, error) {
	result := Matches{Records: []record.Record{}, Meta: []Meta{}}
	p, err := c.planOf(q, nil, nil)
	var last key.Key // of the page before, and then the last row that was taken
	if err == nil && p.after != "" && store.Decode(p.after, &last) != nil {
		err = problem.Invalidf("cursor", "is not one that this list returned")
	}
	if err != nil {
		return result, err
	}
	start := time.Now()
	checked := c.checking(ctx)
	for _, r := range c.listRanges(last) {
		for token := (*key.Token)(nil); ; {
			page, err := c.Index.Query(ctx, storage.Query{Range: r, Top: min(storage.PageRows, p.top-len(result.Records)+1), Token: token})
			if err != nil {
				return result, cmp.Or(checked(), fmt.Errorf("catalog %s: %w", c.Name, err))
			}
			for _, row := range page.Entities {
				if len(result.Records) == p.top {
					result.Cursor = p.writeCursor(store.Encode(last))
					return result, checked()
				}
				last = row.Key
				if m, ok := c.match(p, wanted{}, row); ok && row.Get(store.GoneColumn) == "" {
					result.Records, result.Meta = append(result.Records, m.record), append(result.Meta, m.meta())
				}
			}
			if token = page.Next; token == nil {
				break
			}
			if last.Partition != "" && (len(result.Records) == p.top || time.Since(start) > fillTime) {
				result.Cursor = p.writeCursor(store.Encode(last))
				return result, checked()
			}
		}
	}
	return result, checked()
}

// listRanges returns the key ranges of the first index key's rows behind a row.
func (c *Catalog) listRanges(at key.Key) []key.Range {
	var ranges []key.Range
	if at.Partition != "" {
		ranges = append(ranges, key.Range{Partition: &at.Partition, Low: &key.Bound{Key: at.Row, Open: true}})
	}
	for _, prefix := range c.Schema.FirstPrefixes() {
		r := key.Range{Low: &key.Bound{Key: prefix}, High: key.PrefixEnd(prefix)}
		if at.Partition != "" && r.High != nil && !key.Less(at.Partition, r.High.Key) {
			continue
		}
		if at.Partition != "" && key.Less(prefix, at.Partition) {
			r.Low = &key.Bound{Key: at.Partition, Open: true}
		}
		ranges = append(ranges, r)
	}
	return ranges
}

// pages returns what reads the query's pages: Find, or List if it has no Keys.
func (c *Catalog) pages(q Lookup) func(context.Context, Lookup) (Matches, error) {
	if len(q.Keys) == 0 {
		return c.List
	}
	return c.Find
}

// Each calls fn with every record that Find returns for the query, or List if it has no Keys,
// until fn fails.
func (c *Catalog) Each(ctx context.Context, q Lookup, fn func(record.Record) error) error {
	read := c.pages(q)
	q.Top = MaxTop
	for {
		found, err := read(ctx, q)
		if err != nil {
			return err
		}
		for _, r := range found.Records {
			if err := fn(r); err != nil {
				return err
			}
		}
		if q.Cursor = found.Cursor; q.Cursor == "" {
			return nil
		}
	}
}

// Count counts the records that Find returns for the query, or List if it has no Keys. It
// stops after about ten seconds; then the cursor is not "", and goes on. It costs as much as
// reading the records.
func (c *Catalog) Count(ctx context.Context, q Lookup) (n int, cursor string, err error) {
	read := c.pages(q)
	q.Top = MaxTop
	for start := time.Now(); ; {
		found, err := read(ctx, q)
		if err != nil {
			return n, "", err
		}
		n += len(found.Records)
		if q.Cursor = found.Cursor; q.Cursor == "" || time.Since(start) > fillTime {
			return n, q.Cursor, nil
		}
	}
}
