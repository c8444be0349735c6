package catalog

import (
	"context"
	"slices"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/problem"
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

func (c *Catalog) deleteRow(ctx context.Context, row storage.Entity) error {
	return c.Index.Write(ctx, storage.Op{Kind: storage.Delete, IfMatch: row.ETag, Entity: storage.Entity{Key: row.Key}})
}

// adopt enters a record into the log that is known by its rows alone, which are all the
// same. It is a Conflict if one of the record's places holds anything else. When adopt
// returns, the record stands in all of them.
func (c *Catalog) adopt(ctx context.Context, id index.Identity, r record.Record) error {
	w := writeFor(id)
	all, err := c.copies(ctx, w)
	if err != nil {
		return err
	}
	before := &wal.Head{Write: wal.Write{Gone: true}}
	for _, x := range all {
		if !x.slot.Exists || x.slot.Identity != w.Identity {
			continue // a collision is noticed when the row is written
		}
		before.Version = max(before.Version, x.slot.Version)
		if !x.slot.Gone && contentOf(x.row).Hash() != r.Hash() {
			return problem.Conflictf("", "the row %q of %q has the same index and sort values, and other contents", x.at.Row, x.at.Partition)
		}
	}
	w, _ = wal.Insertion(before, w, "", c.Now())
	return c.enter(ctx, nil, w, r)
}

// enter commits an insertion that was decided on, and carries it out.
func (c *Catalog) enter(ctx context.Context, from *head, w wal.Write, r record.Record) error {
	e := c.newEntry(wal.Insert, w.First, r, from.state())
	e.Writes = []wal.Write{w}
	raced, err := c.commit(ctx, e, []change{{from, w, r.Hash()}})
	if err != nil || raced {
		return unlessRaced(Written{}, raced, err)
	}
	return c.carryOut(ctx, e)
}

// standsEverywhere reports whether the record with this content is in the log, and in
// all its places in the index.
func (c *Catalog) standsEverywhere(ctx context.Context, id index.Identity, r record.Record) (bool, error) {
	h, err := c.readHead(ctx, id.First(), id.Hash())
	if err != nil || h == nil || h.Gone || h.Content != r.Hash() {
		return false, err
	}
	all, err := c.copies(ctx, h.Write)
	return err == nil && !slices.ContainsFunc(all, func(x copyOf) bool { return !x.good(h) }), err
}

// foreign reports whether another program wrote the index row.
func foreign(row storage.Entity) bool { return row.Get(versionColumn) == "" }

// contentOf returns the record of an index row. The published program leaves the name of
// its operation in the rows that it writes.
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
