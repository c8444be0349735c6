package catalog

import (
	"context"
	"errors"
	"fmt"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/key"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// shardOf returns the shard of a first index value, by its hash.
func shardOf(first string) string { return shardName(index.Shard(first, shards)) }

func shardName(i int) string { return fmt.Sprintf("%02d", i) }

func shardNames() []string {
	names := make([]string, shards)
	for i := range names {
		names[i] = shardName(i)
	}
	return names
}

// eachShard calls fn for every shard, even if it fails for some.
func (c *Catalog) eachShard(fn func(shard string) error) error {
	errs := make([]error, shards)
	var g task.Group
	g.SetLimit(parallel)
	for i := range shards {
		g.Go(func() error {
			errs[i] = task.Do(func() error { return fn(shardName(i)) })
			return nil
		})
	}
	_ = g.Wait() // fn's errors are in errs
	return errors.Join(errs...)
}

// each calls fn for every row of the query, several at once.
func (c *Catalog) each(ctx context.Context, t *storage.Table, q storage.Query, fn func(context.Context, storage.Entity) error) error {
	return t.All(ctx, q, func(p storage.Page) error {
		g, ctx := task.WithContext(ctx)
		g.SetLimit(parallel)
		for _, row := range p.Entities {
			g.Go(func() error { return fn(ctx, row) })
		}
		return g.Wait()
	})
}

func prefixQuery(partition, prefix string) storage.Query {
	return storage.Query{Range: key.WithPrefix(partition, prefix)}
}

// readHead returns an identity's head, nil for none.
func (c *Catalog) readHead(ctx context.Context, first, identity string) (*head, error) {
	row, found, err := c.Log.Get(ctx, headKey(shardOf(first), first, identity))
	if err != nil || !found {
		return nil, err
	}
	return headOf(row)
}

// recorded reports whether the entry is committed: it is pending, or among the changes. One
// transaction moves it from there to here, so that it is always in one of the two.
func (c *Catalog) recorded(ctx context.Context, e entry) (bool, error) {
	_, found, err := c.recordedRow(ctx, e.shard, e.id)
	return found, err
}

// recordedRow returns the row of an entry, pending or applied.
func (c *Catalog) recordedRow(ctx context.Context, shard, id string) (row storage.Entity, found bool, err error) {
	for _, prefix := range []string{entryPrefix, changePrefix} {
		if row, found, err = c.Log.Get(ctx, key.Key{Partition: shard, Row: prefix + id}); found || err != nil {
			break
		}
	}
	return row, found, err
}

// overtaken reports whether a write failed because a row has changed since it was read.
func overtaken(err error) bool {
	return storage.Conflict(err) || storage.HasCode(err, "UpdateConditionNotSatisfied", "ResourceNotFound", "EntityNotFound")
}
