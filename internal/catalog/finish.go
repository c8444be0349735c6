package catalog

import (
	"context"
	"slices"

	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

// finish moves an applied entry to the changes, and notes its tombstones for deletion. If
// a request that applied the entry may still be carried out, sure is false, and the heads
// are marked.
func (c *Catalog) finish(ctx context.Context, e entry, sure bool) error {
	ops := []storage.Op{deletion(e)}
	if e.Kind != wal.Undo {
		ops = append(ops, storage.Op{Kind: storage.Insert, Entity: entryRow(changePrefix, e)})
	}
	if gone := removalsOf(e.Writes); len(gone) > 0 {
		what := storage.StringProperty("Writes", encode(gone))
		ops = append(ops, c.clearLater(e, what), storage.Op{Kind: storage.Replace, Entity: storage.Entity{
			Key: key.Key{Partition: e.shard, Row: tombstonePrefix + e.id}, Properties: []storage.Property{what},
		}})
	}
	if !sure {
		for _, w := range e.Writes {
			ops = append(ops, doubt(e.shard, w, "*"))
		}
	}
	err := c.Log.Write(ctx, ops...)
	if storage.Conflict(err) { // the change exists: a backup has brought the entry back
		err = c.Log.Write(ctx, ops[0])
	}
	if overtaken(err) { // another process has finished it
		return nil
	}
	return err
}

// deletion returns the operation that deletes an entry.
func deletion(e entry) storage.Op {
	return storage.Op{Kind: storage.Delete, Entity: storage.Entity{Key: key.Key{Partition: e.shard, Row: entryPrefix + e.id}}}
}

// removalsOf returns the writes that leave tombstones.
func removalsOf(writes []wal.Write) []wal.Write {
	return slices.DeleteFunc(slices.Clone(writes), func(w wal.Write) bool { return !w.Gone })
}

// clearLater returns the operation that notes something for deletion after clearAfter.
func (c *Catalog) clearLater(e entry, what storage.Property) storage.Op {
	return storage.Op{Kind: storage.Replace, Entity: storage.Entity{
		Key:        key.Key{Partition: e.shard, Row: clearPrefix + key.Inverted(c.Now().Add(clearAfter)) + "|" + e.id},
		Properties: []storage.Property{what},
	}}
}
