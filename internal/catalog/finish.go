package catalog

import (
	"context"
	"slices"

	"tablesweep/internal/catalog/store"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

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
