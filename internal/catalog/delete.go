package catalog

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"tablesweep/internal/catalog/store"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// Delete deletes all records that the query finds, and returns their number. It also
// completes deletions and moves that a crash has left half done. If ctx ends first, the
// error says so, and a retry goes on. With a condition, the query must find only one
// record. The query's Top and Cursor must not be set.
func (c *Catalog) Delete(ctx context.Context, q Lookup, on Condition) (int, error) {
	if err := c.Writable(ctx); err != nil {
		return 0, err
	}
	if len(on.Match)+len(on.Differ) > 0 {
		return c.deleteOne(ctx, q, on)
	}
	var deleted atomic.Int64
	var behind atomic.Bool // rows were met whose records are gone or have moved
	q.Top = MaxTop
	for races := 0; races < maxRaces; {
		gone := map[string][]string{} // identities of tombstones met, by shard
		found, next, err := c.find(ctx, q, func(row storage.Entity) {
			shard := store.ShardOf(row.Get(store.FirstColumn))
			gone[shard] = append(gone[shard], row.Get(store.IdentityColumn))
		})
		if err == nil {
			g, ctx := task.WithContext(ctx)
			g.SetLimit(store.Parallel)
			for _, m := range found {
				g.Go(func() error {
					done, err := c.Remove(ctx, m.id.First(), m.id.Hash(), m.record, on)
					if done {
						deleted.Add(1)
					} else {
						behind.Store(true)
					}
					return err
				})
			}
			for shard, identities := range gone {
				g.Go(func() error { return c.completeDeletions(ctx, shard, identities) })
			}
			err = g.Wait()
		}
		if err != nil && deleted.Load() > 0 {
			err = fmt.Errorf("after %d records were deleted: %w", deleted.Load(), err)
		}
		if err != nil || next == "" && !behind.Load() {
			return int(deleted.Load()), err
		}
		if q.Cursor = next; next == "" { // a record may have moved past the search: search again
			behind.Store(false)
			races++
		}
	}
	return int(deleted.Load()), c.busy()
}

func (c *Catalog) deleteOne(ctx context.Context, q Lookup, on Condition) (int, error) {
	for range maxRaces {
		found, err := c.selectOne(ctx, q)
		if err != nil {
			return 0, err
		}
		if found == nil {
			return 0, on.check(nil)
		}
		done, err := c.Remove(ctx, found.id.First(), found.id.Hash(), found.record, on)
		if done {
			return 1, err
		}
		if err != nil {
			return 0, err
		}
	}
	return 0, c.busy()
}

// completeDeletions applies the shard's pending entries that delete or move one of the
// identities: one index row is a tombstone, others may not be yet.
func (c *Catalog) completeDeletions(ctx context.Context, shard string, identities []string) error {
	return c.Log.All(ctx, store.PrefixQuery(shard, store.EntryPrefix), func(p storage.Page) error {
		for _, row := range p.Entities {
			e, err := store.EntryOf(row)
			if err != nil || !slices.ContainsFunc(e.Writes, func(w wal.Write) bool { return w.Gone && slices.Contains(identities, w.Identity) }) {
				continue // recovery reports entries that it can't read
			}
			if err := c.redo(ctx, e); err != nil && !hopeless(err) { // a hopeless one must not block the deletion
				return err
			}
		}
		return nil
	})
}
