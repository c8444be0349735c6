// Package store has the form of a catalog's rows, in the index table and in the log, and reads
// them. Packages catalog, check and migrate write them.
package store

import (
	"context"
	"errors"
	"fmt"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/key"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// Store is the two tables of a catalog.
type Store struct {
	Name   string // in messages
	Index  *storage.Table
	Log    *storage.Table
	Schema index.Schema
}

const (
	// shards is the number of the log's partitions. Each takes 2,000 rows a second
	// (Microsoft Learn, "Scalability and performance targets for Table storage"), and an
	// insertion writes five. The number can't change: it says where heads are.
	shards = 16
	// parallel is how many shards or records are handled at once.
	Parallel = 8
)

// ShardOf returns the shard of a first index value, by its hash.
func ShardOf(first string) string { return shardName(index.Shard(first, shards)) }

func shardName(i int) string { return fmt.Sprintf("%02d", i) }

// ShardNames returns the names of all shards.
func ShardNames() []string {
	names := make([]string, shards)
	for i := range names {
		names[i] = shardName(i)
	}
	return names
}

// EachShard calls fn for every shard, even if it fails for some.
func EachShard(fn func(shard string) error) error {
	errs := make([]error, shards)
	var g task.Group
	g.SetLimit(Parallel)
	for i := range shards {
		g.Go(func() error {
			errs[i] = task.Do(func() error { return fn(shardName(i)) })
			return nil
		})
	}
	_ = g.Wait() // fn's errors are in errs
	return errors.Join(errs...)
}

// Each calls fn for every row of the query, several at once.
func Each(ctx context.Context, t *storage.Table, q storage.Query, fn func(context.Context, storage.Entity) error) error {
	return t.All(ctx, q, func(p storage.Page) error {
		g, ctx := task.WithContext(ctx)
		g.SetLimit(Parallel)
		for _, row := range p.Entities {
			g.Go(func() error { return fn(ctx, row) })
		}
		return g.Wait()
	})
}

// PrefixQuery asks for the rows of a partition whose keys begin with the prefix.
func PrefixQuery(partition, prefix string) storage.Query {
	return storage.Query{Range: key.WithPrefix(partition, prefix)}
}

// ReadHead returns an identity's head, nil for none.
func (s *Store) ReadHead(ctx context.Context, first, identity string) (*Head, error) {
	row, found, err := s.Log.Get(ctx, HeadKey(ShardOf(first), first, identity))
	if err != nil || !found {
		return nil, err
	}
	return HeadOf(row)
}

// Recorded reports whether the entry is committed: it is pending, or among the changes. One
// transaction moves it from there to here, and here is read last, so that an entry that moves
// meanwhile is found. Entries whose changes were removed by age, and those of withdrawals that
// were applied, are not.
func (s *Store) Recorded(ctx context.Context, e Entry) (bool, error) {
	_, found, err := s.RecordedRow(ctx, e.Shard, e.ID)
	return found, err
}

// RecordedRow returns the row of an entry, pending or applied.
func (s *Store) RecordedRow(ctx context.Context, shard, id string) (row storage.Entity, found bool, err error) {
	for _, prefix := range []string{EntryPrefix, ChangePrefix} {
		if row, found, err = s.Log.Get(ctx, key.Key{Partition: shard, Row: prefix + id}); found || err != nil {
			break
		}
	}
	return row, found, err
}

// Overtaken reports whether a write failed because a row has changed since it was read.
func Overtaken(err error) bool {
	return storage.Conflict(err) || storage.HasCode(err, "UpdateConditionNotSatisfied", "ResourceNotFound", "EntityNotFound")
}
