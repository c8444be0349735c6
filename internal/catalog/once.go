package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"tablesweep/internal/catalog/store"
	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/storage"
)

// used returns the entry of the insertion that has used an Idempotency-Key. The error is a
// Conflict if the record was another, or was not inserted.
func (c *Catalog) used(ctx context.Context, shard, once, content string) (e store.Entry, used bool, err error) {
	row, found, err := c.Log.Get(ctx, onceKey(shard, once))
	if err != nil || !found {
		return store.Entry{}, false, err
	}
	if row.Get("Content") != content {
		return store.Entry{}, false, problem.Conflictf("Idempotency-Key", "was used for another record; use a new key for each record")
	}
	row, found, err = c.RecordedRow(ctx, shard, row.Get("Entry"))
	if err != nil {
		return store.Entry{}, false, err
	}
	if !found {
		return store.Entry{}, false, problem.Conflictf("Idempotency-Key", "was used for this record when another one was in its way; change the record, and use a new key")
	}
	e, err = store.EntryOf(row)
	return e, true, err
}

// onceOps returns the operations that record the use of an Idempotency-Key, none for "".
func (c *Catalog) onceOps(e store.Entry, once, content string) []storage.Op {
	if once == "" {
		return nil
	}
	row := onceKey(e.Shard, once)
	return []storage.Op{
		{Kind: storage.Insert, Entity: storage.Entity{Key: row, Properties: []storage.Property{
			storage.StringProperty("Entry", e.ID), storage.StringProperty("Content", content),
		}}},
		c.clearLater(e, storage.StringProperty("Row", row.Row)),
	}
}

func onceKey(shard, once string) key.Key {
	sum := sha256.Sum256([]byte(once))
	return key.Key{Partition: shard, Row: store.OncePrefix + hex.EncodeToString(sum[:])}
}
