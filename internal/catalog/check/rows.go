package check

import (
	"context"
	"slices"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/store"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
)

// rows checks the index rows of suspect identities, for rows that no head accounts for.
func (k *checker) rows(ctx context.Context, suspect func(identity string) bool) error {
	return store.Each(ctx, k.Index, storage.Query{}, func(ctx context.Context, row storage.Entity) error {
		s := k.SlotOf(row)
		if !suspect(s.Identity) {
			return nil
		}
		if s.Gone {
			return k.tombstone(ctx, row, s)
		}
		r := store.ContentOf(row)
		id, err := k.Identify(r)
		if err != nil {
			return nil // compare has reported it
		}
		h, err := k.ReadHead(ctx, id.First(), id.Hash())
		if err != nil {
			return err
		}
		if h == nil {
			k.count(&k.sum.Untracked, 1)
		}
		if h == nil && store.Foreign(row) {
			k.report(row.Key, false, "another program wrote the row; take it over with: handler catalog migrate")
			return nil
		}
		if h == nil {
			err := k.repairing(row.Key, "the log does not know the row's record", func() error { return k.Adopt(ctx, id, r) })
			if err != nil {
				return err
			}
		}
		if row.Key.Row != id.Row || !slices.Contains(id.Partitions, row.Key.Partition) {
			return k.misplacedRow(ctx, row, id, r)
		}
		if h != nil && h.Gone && s.Version < h.Version {
			return k.deletedRow(ctx, row, h)
		}
		return nil
	})
}

// tombstone checks a tombstone. If its identity has no head any more, it was left behind,
// and nothing else would delete it.
func (k *checker) tombstone(ctx context.Context, row storage.Entity, s store.Slot) error {
	h, err := k.ReadHead(ctx, row.Get(store.FirstColumn), s.Identity)
	if err != nil || h != nil {
		return err
	}
	if _, found, err := k.Index.Get(ctx, row.Key); err != nil || !found { // it has just been deleted
		return err
	}
	return k.repairing(row.Key, "the tombstone was left behind", func() error { return k.DeleteRow(ctx, row) })
}

// deletedRow handles a row that still holds a deleted record.
func (k *checker) deletedRow(ctx context.Context, row storage.Entity, h *store.Head) error {
	if changing, err := k.changing(ctx, h); changing || err != nil {
		return err
	}
	now, found, err := k.Index.Get(ctx, row.Key)
	if err != nil || !found || now.ETag != row.ETag { // it has been written meanwhile
		return err
	}
	return k.repairing(row.Key, "the row holds a deleted record", func() error {
		return k.Index.Write(ctx, storage.Op{Kind: storage.Replace, IfMatch: row.ETag, Entity: store.IndexRow(h.Write, row.Key.Partition, record.Record{})})
	})
}

// misplacedRow handles a row in a place where its record has none. The row is deleted if
// all places of the record hold its content.
func (k *checker) misplacedRow(ctx context.Context, row storage.Entity, id index.Identity, r record.Record) error {
	there, err := k.StandsEverywhere(ctx, id, r)
	if err != nil {
		return err
	}
	if !there {
		k.report(row.Key, false, "the row is in a place where its record has none, and its contents differ from the record; copy what is missing, and delete the row")
		return nil
	}
	return k.repairing(row.Key, "the row is in a place where its record has none", func() error { return k.DeleteRow(ctx, row) })
}
