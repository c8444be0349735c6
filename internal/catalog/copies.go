package catalog

import (
	"context"
	"slices"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/key"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// copyOf is one copy of a record: what was read at the place of an index row.
type copyOf struct {
	at     key.Key
	row    storage.Entity
	slot   slot
	record record.Record
}

// copies reads all places of the write's record.
func (c *Catalog) copies(ctx context.Context, w wal.Write) ([]copyOf, error) {
	all := make([]copyOf, len(w.Partitions))
	g, ctx := task.WithContext(ctx)
	for i, p := range w.Partitions {
		g.Go(func() error {
			at := key.Key{Partition: p, Row: w.Row}
			row, found, err := c.Index.Get(ctx, at)
			all[i] = copyOf{at: at, row: row}
			if found {
				all[i].slot, all[i].record = c.slotOf(row), record.FromProperties(row.Properties)
			}
			return err
		})
	}
	return all, g.Wait()
}

// good reports whether the copy is that of the head's newest write.
func (x copyOf) good(h *head) bool {
	return x.ours(h) && x.slot.Version == h.Version && x.record.Hash() == h.Content
}

// ours reports whether the copy holds a record of the head's identity.
func (x copyOf) ours(h *head) bool {
	return x.slot.Exists && !x.slot.Gone && x.slot.Identity == h.Identity
}

// standsEverywhere reports whether the head and all index rows of the identity have this
// record.
func (c *Catalog) standsEverywhere(ctx context.Context, id index.Identity, r record.Record) (bool, error) {
	h, err := c.readHead(ctx, id.First(), id.Hash())
	if err != nil || h == nil || h.Gone || h.Content != r.Hash() {
		return false, err
	}
	all, err := c.copies(ctx, h.Write)
	return err == nil && !slices.ContainsFunc(all, func(x copyOf) bool { return !x.good(h) }), err
}

// deleteRow deletes an index row, unless it has changed since it was read.
func (c *Catalog) deleteRow(ctx context.Context, row storage.Entity) error {
	return c.Index.Write(ctx, storage.Op{Kind: storage.Delete, IfMatch: row.ETag, Entity: storage.Entity{Key: row.Key}})
}

// foreign reports whether another program wrote the index row.
func foreign(row storage.Entity) bool { return row.Get(versionColumn) == "" }

// contentOf returns the record of an index row, without the operation's name that the
// published program leaves in its rows.
func contentOf(row storage.Entity) record.Record {
	r := record.FromProperties(row.Properties)
	if v, _ := r.Get(publishedOperation); foreign(row) && v == publishedInsert {
		r = without(r, publishedOperation)
	}
	return r
}

// without returns the record without a field.
func without(r record.Record, field string) record.Record {
	r.Fields = slices.DeleteFunc(slices.Clone(r.Fields), func(f record.Field) bool { return f.Name == field })
	return r
}
