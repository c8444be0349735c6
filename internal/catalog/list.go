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

// List returns all records whose sort value is in the query's window, sorted by the text of
// the first index key. The query has no Keys. It costs one request for each 1,000 rows of
// the first index key.
func (c *Catalog) List(ctx context.Context, q Lookup) (Matches, error) {
	result := Matches{Records: []record.Record{}, Meta: []Meta{}}
	p, err := c.listPlan(q)
	if err != nil {
		return result, err
	}
	start, last := time.Now(), p.at
	checked := c.checking(ctx)
	for _, r := range c.listRanges(p.at) {
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
				if m, ok := c.match(p.plan, wanted{}, row); ok && row.Get(store.GoneColumn) == "" {
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

// listPlan is the plan of a list, and the last row of the page before.
type listPlan struct {
	plan
	at key.Key
}

func (c *Catalog) listPlan(q Lookup) (listPlan, error) {
	p, err := c.planOf(q, nil, nil)
	l := listPlan{plan: p}
	if err == nil && p.after != "" && store.Decode(p.after, &l.at) != nil {
		err = problem.Invalidf("cursor", "is not one that this list returned")
	}
	return l, err
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
