package catalog

import (
	"context"

	"tablesweep/internal/record"
	"tablesweep/internal/task"
)

// bulkWriters is how many records WriteAll writes at once: enough to keep a laptop's
// connection busy, and fewer than the log's shards can take.
const bulkWriters = 64

// Result is the result of one of several writes.
type Result struct {
	Written
	Err error
}

// InsertAll inserts records as Insert does, many at once; see [Catalog.WriteAll].
func (c *Catalog) InsertAll(ctx context.Context, records []record.Record) []Result {
	return c.WriteAll(ctx, records, func(ctx context.Context, r record.Record) (Written, error) { return c.Insert(ctx, r, "") })
}

// WriteAll writes records by the function write, many at once, but those with the same identity
// in their order. It returns a result for each. If the process dies, some are written and some
// are not; after Maintain, none is half written.
func (c *Catalog) WriteAll(ctx context.Context, records []record.Record, write func(context.Context, record.Record) (Written, error)) []Result {
	results := make([]Result, len(records))
	var identities []string
	same := map[string][]int{} // by identity
	for i, r := range records {
		id, err := c.Identify(r)
		if err != nil {
			results[i].Err = err
			continue
		}
		hash := id.Hash()
		if len(same[hash]) == 0 {
			identities = append(identities, hash)
		}
		same[hash] = append(same[hash], i)
	}
	var g task.Group
	g.SetLimit(bulkWriters)
	for _, hash := range identities {
		g.Go(func() error {
			for _, i := range same[hash] {
				results[i].Err = task.Do(func() (err error) {
					results[i].Written, err = write(ctx, records[i])
					return err
				})
			}
			return nil
		})
	}
	_ = g.Wait() // errors are among the results
	return results
}
