package store

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

// Copy is one copy of a record: what was read at the key of an index row.
type Copy struct {
	At     key.Key
	Row    storage.Entity
	Slot   Slot
	Record record.Record
}

// Copies reads the write's record under all keys of its index rows.
func (s *Store) Copies(ctx context.Context, w wal.Write) ([]Copy, error) {
	all := make([]Copy, len(w.Partitions))
	g, ctx := task.WithContext(ctx)
	for i, p := range w.Partitions {
		g.Go(func() error {
			at := key.Key{Partition: p, Row: w.Row}
			row, found, err := s.Index.Get(ctx, at)
			all[i] = Copy{At: at, Row: row}
			if found {
				all[i].Slot, all[i].Record = s.SlotOf(row), record.FromProperties(row.Properties)
			}
			return err
		})
	}
	return all, g.Wait()
}

// Good reports whether the copy is that of the head's newest write.
func (x Copy) Good(h *Head) bool {
	return x.Ours(h) && x.Slot.Version == h.Version && x.Record.Hash() == h.Content
}

// Ours reports whether the copy holds a record of the head's identity.
func (x Copy) Ours(h *Head) bool {
	return x.Slot.Exists && !x.Slot.Gone && x.Slot.Identity == h.Identity
}

// StandsEverywhere reports whether the head and all index rows of the identity have this
// record.
func (s *Store) StandsEverywhere(ctx context.Context, id index.Identity, r record.Record) (bool, error) {
	h, err := s.ReadHead(ctx, id.First(), id.Hash())
	if err != nil || h == nil || h.Gone || h.Content != r.Hash() {
		return false, err
	}
	all, err := s.Copies(ctx, h.Write)
	return err == nil && !slices.ContainsFunc(all, func(x Copy) bool { return !x.Good(h) }), err
}

// DeleteRow deletes an index row, unless it has changed since it was read.
func (s *Store) DeleteRow(ctx context.Context, row storage.Entity) error {
	return s.Index.Write(ctx, storage.Op{Kind: storage.Delete, IfMatch: row.ETag, Entity: storage.Entity{Key: row.Key}})
}

// The published program writes the operation's name into its rows, too.
const (
	PublishedOperation = "operation"
	PublishedInsert    = "insert"
)

// Foreign reports whether another program wrote the index row.
func Foreign(row storage.Entity) bool { return row.Get(VersionColumn) == "" }

// ContentOf returns the record of an index row, without the operation's name that the
// published program leaves in its rows.
func ContentOf(row storage.Entity) record.Record {
	r := record.FromProperties(row.Properties)
	if v, _ := r.Get(PublishedOperation); Foreign(row) && v == PublishedInsert {
		r = Without(r, PublishedOperation)
	}
	return r
}

// Without returns the record without a field.
func Without(r record.Record, field string) record.Record {
	r.Fields = slices.DeleteFunc(slices.Clone(r.Fields), func(f record.Field) bool { return f.Name == field })
	return r
}
