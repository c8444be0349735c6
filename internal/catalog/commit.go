package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"tablesweep/internal/catalog/store"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/key"
	"tablesweep/internal/logtail"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
)

// newEntry returns an entry whose time is later than that of the heads.
func (c *Catalog) newEntry(kind wal.Kind, first string, r record.Record, heads ...*wal.Head) store.Entry {
	// Each entry has a clock of its own. Otherwise, one head from a writer whose clock is far
	// ahead would date all later entries.
	id := logtail.NewClock().NextKey(wal.After(c.now(), heads...))
	t, err := logtail.KeyTime(id)
	if err != nil {
		panic("catalog: internal error: " + err.Error())
	}
	return store.Entry{Entry: wal.Entry{Kind: kind, Time: t}, ID: id, Shard: store.ShardOf(first), Record: r}
}

// headUpdate makes a write the newest of its identity.
type headUpdate struct {
	from    *store.Head // as it was read, nil for none
	to      wal.Write
	content string // hash of the record; "" if it is gone
}

// commit inserts the entry, updates the heads and does more operations, all in one
// transaction. raced means that nothing was done because a head had changed.
func (c *Catalog) commit(ctx context.Context, e store.Entry, updates []headUpdate, more ...storage.Op) (raced bool, err error) {
	ops := []storage.Op{{Kind: storage.Insert, Entity: store.EntryRow(store.EntryPrefix, e)}}
	for _, u := range updates {
		op := storage.Op{Kind: storage.Insert, Entity: store.HeadRow(e.Shard, u.to, e.ID, u.content, u.from == nil || u.from.Sure)}
		if u.from != nil {
			op.Kind, op.IfMatch = storage.Replace, u.from.ETag
		}
		ops = append(ops, op)
	}
	committing, cancel := context.WithTimeout(ctx, commitTime)
	defer cancel()
	err = c.Log.Write(committing, append(ops, more...)...)
	switch {
	case err == nil:
		return false, nil
	case store.Overtaken(err):
		// Perhaps by the first try of this request, whose answer was lost.
		_, ours, err := c.Recorded(ctx, e.Shard, e.ID)
		return !ours, err
	case storage.HasCode(err, "EntityTooLarge", "PropertyValueTooLarge", "TooManyProperties", "RequestBodyTooLarge"):
		return false, problem.TooLargef("", "the record is too large for a row; shorten it").Because(err)
	}
	return false, fmt.Errorf("catalog %s: record the write: %w", c.Name, err)
}

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
	row, found, err = c.Recorded(ctx, shard, row.Get("Entry"))
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

// finish moves an applied entry to the changes, and notes its tombstones for deletion. If
// a request that applied the entry may still be carried out, sure is false, and the heads
// are marked.
func (c *Catalog) finish(ctx context.Context, e store.Entry, sure bool) error {
	ops := []storage.Op{deletion(e)}
	if e.Kind != wal.Undo {
		ops = append(ops, storage.Op{Kind: storage.Insert, Entity: store.EntryRow(store.ChangePrefix, e)})
	}
	if gone := removalsOf(e.Writes); len(gone) > 0 {
		what := storage.StringProperty("Writes", store.Encode(gone))
		ops = append(ops, c.clearLater(e, what), storage.Op{Kind: storage.Replace, Entity: storage.Entity{
			Key: key.Key{Partition: e.Shard, Row: store.TombstonePrefix + e.ID}, Properties: []storage.Property{what},
		}})
	}
	if !sure {
		for _, w := range e.Writes {
			ops = append(ops, store.Doubt(e.Shard, w, "*"))
		}
	}
	err := c.Log.Write(ctx, ops...)
	if storage.Conflict(err) { // the change exists: a backup has brought the entry back
		err = c.Log.Write(ctx, ops[0])
	}
	if store.Overtaken(err) { // another process has finished it
		return nil
	}
	return err
}

// deletion returns the operation that deletes an entry.
func deletion(e store.Entry) storage.Op {
	return storage.Op{Kind: storage.Delete, Entity: storage.Entity{Key: key.Key{Partition: e.Shard, Row: store.EntryPrefix + e.ID}}}
}

// removalsOf returns the writes that leave tombstones.
func removalsOf(writes []wal.Write) []wal.Write {
	return slices.DeleteFunc(slices.Clone(writes), func(w wal.Write) bool { return !w.Gone })
}

// clearLater returns the operation that notes something for deletion after clearAfter.
func (c *Catalog) clearLater(e store.Entry, what storage.Property) storage.Op {
	return storage.Op{Kind: storage.Replace, Entity: storage.Entity{
		Key:        key.Key{Partition: e.Shard, Row: store.ClearPrefix + key.Inverted(c.now().Add(clearAfter)) + "|" + e.ID},
		Properties: []storage.Property{what},
	}}
}
