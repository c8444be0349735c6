package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/storage"
)

// change is a head's change: from what it was when it was read, nil for none.
type change struct {
	from    *head
	to      wal.Write
	content string
}

// commit records the entry and changes the heads, all or nothing. raced is true if
// nothing was done because a head is no longer what it was.
func (c *Catalog) commit(ctx context.Context, e entry, changes []change, more ...storage.Op) (raced bool, err error) {
	ops := []storage.Op{{Kind: storage.Insert, Entity: entryRow(entryPrefix, e)}}
	for _, ch := range changes {
		op := storage.Op{Kind: storage.Insert, Entity: headRow(e.shard, ch.to, e.id, ch.content, ch.from == nil || ch.from.Sure)}
		if ch.from != nil {
			op.Kind, op.IfMatch = storage.Replace, ch.from.etag
		}
		ops = append(ops, op)
	}
	committing, cancel := context.WithTimeout(ctx, commitTime)
	defer cancel()
	err = c.Log.Write(committing, append(ops, more...)...)
	switch {
	case err == nil:
		return false, nil
	case overtaken(err):
		// Perhaps by a first try of this request, whose answer was lost.
		ours, err := c.recorded(ctx, e)
		return !ours, err
	case storage.HasCode(err, "EntityTooLarge", "PropertyValueTooLarge", "TooManyProperties", "RequestBodyTooLarge"):
		return false, problem.TooLargef("", "the record is too large for a row: shorten it").Because(err)
	}
	return false, fmt.Errorf("catalog %s: record the write: %w", c.Name, err)
}

// recorded reports whether the entry is in the log or among the changes. It never
// leaves one without being in the other.
func (c *Catalog) recorded(ctx context.Context, e entry) (bool, error) {
	_, found, err := c.recordedRow(ctx, e.shard, e.id)
	return found, err
}

func (c *Catalog) recordedRow(ctx context.Context, shard, id string) (row storage.Entity, found bool, err error) {
	for _, prefix := range []string{entryPrefix, changePrefix} {
		if row, found, err = c.Log.Get(ctx, key.Key{Partition: shard, Row: prefix + id}); found || err != nil {
			break
		}
	}
	return row, found, err
}

// overtaken reports whether err says that a row is no longer what it was when it was read.
func overtaken(err error) bool {
	return storage.Conflict(err) || storage.HasCode(err, "UpdateConditionNotSatisfied", "ResourceNotFound", "EntityNotFound")
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
