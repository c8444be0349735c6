package catalog

import (
	"context"
	"slices"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
)

// rows looks for suspect index rows that no record in the log accounts for.
func (k *checker) rows(ctx context.Context, suspect func(identity string) bool) error {
	return k.each(ctx, k.Index, storage.Query{}, func(ctx context.Context, row storage.Entity) error {
		s := k.slotOf(row)
		if !suspect(s.Identity) {
			return nil
		}
		if s.Gone {
			return k.goneRow(ctx, row, s)
		}
		r := contentOf(row)
		id, err := k.identify(r)
		if err != nil {
			return nil // reported
		}
		h, err := k.readHead(ctx, id.First(), id.Hash())
		if err != nil {
			return err
		}
		if h == nil {
			k.count(Finding{}, func(s *Checked) { s.Untracked++ })
		}
		if h == nil && foreign(row) {
			k.report(row.Key, false, "another program wrote the row: take it over by: handler catalog migrate")
			return nil
		}
		if h == nil {
			err := k.repairing(row.Key, "the log does not know the row's record", func() error { return k.adopt(ctx, id, r) })
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

// goneRow checks a row that says that a record is gone. If the log doesn't know of
// it, its time is over, and nothing would clear it away.
func (k *checker) goneRow(ctx context.Context, row storage.Entity, s slot) error {
	h, err := k.readHead(ctx, row.Get(firstColumn), s.Identity)
	if err != nil || h != nil {
		return err
	}
	if _, found, err := k.Index.Get(ctx, row.Key); err != nil || !found { // it was just cleared away
		return err
	}
	return k.repairing(row.Key, "the row says that a record is gone, and was left behind", func() error { return k.deleteRow(ctx, row) })
}

// deletedRow handles the row of a record that is gone.
func (k *checker) deletedRow(ctx context.Context, row storage.Entity, h *head) error {
	if changing, err := k.changing(ctx, h); changing || err != nil {
		return err
	}
	now, found, err := k.Index.Get(ctx, row.Key)
	if err != nil || !found || now.ETag != row.ETag { // it was written meanwhile
		return err
	}
	return k.repairing(row.Key, "the row is that of a deleted record", func() error {
		return k.Index.Write(ctx, storage.Op{Kind: storage.Replace, IfMatch: row.ETag, Entity: indexRow(h.Write, row.Key.Partition, record.Record{})})
	})
}

// misplacedRow handles a row in a place where its record has none. It is deleted if
// its content stands in all places of the record.
func (k *checker) misplacedRow(ctx context.Context, row storage.Entity, id index.Identity, r record.Record) error {
	there, err := k.standsEverywhere(ctx, id, r)
	if err != nil {
		return err
	}
	if !there {
		k.report(row.Key, false, "the row stands where its record has none, and has other contents than the record: copy what is missing, and delete the row")
		return nil
	}
	return k.repairing(row.Key, "the row stands where its record has none", func() error { return k.deleteRow(ctx, row) })
}
