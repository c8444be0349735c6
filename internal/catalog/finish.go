package catalog

import (
	"context"
	"slices"

	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

// finish moves an applied entry to the changes. Rows that say "gone" are noted for
// being cleared away. Unless it is sure that none of the requests that applied it can be
// carried out again, the heads say so.
func (c *Catalog) finish(ctx context.Context, e entry, sure bool) error {
	ops := []storage.Op{deletion(e)}
	if e.Kind != wal.Undo {
		ops = append(ops, storage.Op{Kind: storage.Insert, Entity: entryRow(changePrefix, e)})
	}
	if gone := goneOf(e.Writes); len(gone) > 0 {
		what := storage.StringProperty("Writes", encode(gone))
		ops = append(ops, c.clearLater(e, what), storage.Op{Kind: storage.Replace, Entity: storage.Entity{
			Key: key.Key{Partition: e.shard, Row: gonePrefix + e.id}, Properties: []storage.Property{what},
		}})
	}
	if !sure {
		for _, w := range e.Writes {
			ops = append(ops, doubt(e.shard, w, "*"))
		}
	}
	err := c.Log.Write(ctx, ops...)
	if storage.Conflict(err) { // the change is there, so this is an entry that was set back
		err = c.Log.Write(ctx, ops[0])
	}
	if overtaken(err) { // another has done it
		return nil
	}
	return err
}

// deletion removes an entry from the log.
func deletion(e entry) storage.Op {
	return storage.Op{Kind: storage.Delete, Entity: storage.Entity{Key: key.Key{Partition: e.shard, Row: entryPrefix + e.id}}}
}

func goneOf(writes []wal.Write) []wal.Write {
	return slices.DeleteFunc(slices.Clone(writes), func(w wal.Write) bool { return !w.Gone })
}

// clearLater notes that something is to be cleared away.
func (c *Catalog) clearLater(e entry, what storage.Property) storage.Op {
	return storage.Op{Kind: storage.Replace, Entity: storage.Entity{
		Key:        key.Key{Partition: e.shard, Row: clearPrefix + key.Inverted(c.Now().Add(clearAfter)) + "|" + e.id},
		Properties: []storage.Property{what},
	}}
}
