package catalog

import (
	"context"
	"slices"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
)

// rows looks for index rows that no record in the log accounts for.
func (k *checker) rows(ctx context.Context) error {
	return k.each(ctx, k.Index, storage.Query{}, func(ctx context.Context, row storage.Entity) error {
		k.count(Finding{}, func(s *Checked) { s.Rows++ })
		s := k.slotOf(row)
		if s.Gone {
			return k.goneRow(ctx, row, s)
		}
		r := record.FromProperties(row.Properties)
		id, err := k.identify(r)
		if err != nil {
			k.report(row.Key, false, "the row is not that of a record: %v", err)
			return nil
		}
		h, err := k.readHead(ctx, id.First(), id.Hash())
		if err != nil {
			return err
		}
		if h == nil {
			k.count(Finding{}, func(s *Checked) { s.Untracked++ })
			err := k.repairing(row.Key, "the log does not know the row's record", func() error { return k.adopt(ctx, id, r) })
			if err != nil {
				return err
			}
		}
		if row.Key.Row != id.Row || !slices.Contains(id.Partitions, row.Key.Partition) {
			return k.misplacedRow(ctx, row, h, r)
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

// misplacedRow handles a row in a place where its record has none. h is the
// record's head, nil if it was not known until now.
func (k *checker) misplacedRow(ctx context.Context, row storage.Entity, h *head, r record.Record) error {
	if h != nil && !h.Gone && h.Content != r.Hash() {
		k.report(row.Key, false, "the row stands where its record has none, and has other contents than the record: copy what is missing, and delete the row")
		return nil
	}
	return k.repairing(row.Key, "the row stands where its record has none", func() error { return k.deleteRow(ctx, row) })
}

func (k *checker) deleteRow(ctx context.Context, row storage.Entity) error {
	return k.Index.Write(ctx, storage.Op{Kind: storage.Delete, IfMatch: row.ETag, Entity: storage.Entity{Key: row.Key}})
}

// adopt enters a record into the log that is known by its rows alone. Where they
// differ, the newest counts.
func (k *checker) adopt(ctx context.Context, id index.Identity, r record.Record) error {
	w := writeFor(id)
	all, err := k.copies(ctx, w)
	if err != nil {
		return err
	}
	before := &wal.Head{Write: wal.Write{Gone: true}}
	all = slices.DeleteFunc(all, func(x copyOf) bool { return !x.slot.Exists || x.slot.Identity != w.Identity })
	for _, x := range all {
		before.Version = max(before.Version, x.slot.Version)
	}
	if all = slices.DeleteFunc(all, func(x copyOf) bool { return x.slot.Gone }); len(all) > 0 {
		r = newestOf(all).record
	}
	w, _ = wal.Insertion(before, w, "", k.Now())
	return k.enter(ctx, nil, w, r)
}
