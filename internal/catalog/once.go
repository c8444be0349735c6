package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/storage"
)

// used returns the entry that an idempotency key was used for.
func (c *Catalog) used(ctx context.Context, shard, once, content string) (e entry, used bool, err error) {
	row, found, err := c.Log.Get(ctx, onceKey(shard, once))
	if err != nil || !found {
		return entry{}, false, err
	}
	if row.Get("Content") != content {
		return entry{}, false, problem.Conflictf("Idempotency-Key", "was used for another record: take a new key for each record")
	}
	row, found, err = c.recordedRow(ctx, shard, row.Get("Entry"))
	if err != nil {
		return entry{}, false, err
	}
	if !found {
		return entry{}, false, problem.Conflictf("Idempotency-Key", "was used for this record when another one was in its way: change the record, and take a new key")
	}
	e, err = entryOf(row)
	return e, true, err
}

// onceOps records the use of an idempotency key.
func (c *Catalog) onceOps(e entry, once, content string) []storage.Op {
	if once == "" {
		return nil
	}
	row := onceKey(e.shard, once)
	return []storage.Op{
		{Kind: storage.Insert, Entity: storage.Entity{Key: row, Properties: []storage.Property{
			storage.StringProperty("Entry", e.id), storage.StringProperty("Content", content),
		}}},
		c.clearLater(e, storage.StringProperty("Row", row.Row)),
	}
}

func onceKey(shard, once string) key.Key {
	sum := sha256.Sum256([]byte(once))
	return key.Key{Partition: shard, Row: oncePrefix + hex.EncodeToString(sum[:])}
}
