package check

import (
	"context"
	"fmt"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/store"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
)

// checkRows checks the index rows of suspect identities. It leaves out a row if the row was already checked together
// with its head.
func (k *checker) checkRows(ctx context.Context, suspect func(identity index.IdentityHash) bool) error {
	return store.Each(ctx, k.Index, storage.Query{}, func(ctx context.Context, row storage.Entity) error {
		s := k.SlotOf(row)
		if !suspect(s.Identity) || k.isCovered(row.Key, s.Identity) {
			return nil
		}
		if s.State == wal.Tombstone {
			return k.checkTombstone(ctx, row, s)
		}
		r := store.ContentOf(row)
		id, err := k.Identify(r)
		if err != nil {
			k.reportUnknown(row, fmt.Sprintf("the row does not contain a record: %v", err))
			return nil
		}
		switch {
		case k.isCovered(row.Key, id.Hash()):
			return nil
		case id.Hash() != s.Identity:
			k.reportUnknown(row, "the row was changed by hand, or written with another schema")
			return nil
		}
		h, err := k.ReadHead(ctx, id.First(), id.Hash())
		if err != nil {
			return err
		}
		if h == nil {
			what := "the row's record is not in the log"
			if store.Foreign(row) {
				what = "another program wrote the row; take the row over with: tablesweep catalog migrate"
			}
			k.reportUnknown(row, what)
			return nil
		}
		if !store.WriteFor(id).HasRowAt(row.Key) {
			return k.checkMisplacedRow(ctx, row, id, r)
		}
		if h.Gone {
			return k.checkDeletedRow(ctx, row, s, h)
		}
		return nil
	})
}

// reportUnknown reports a row whose record is not in the log.
func (k *checker) reportUnknown(row storage.Entity, what string) {
	k.count(&k.sum.Untracked, 1)
	k.report(row.Key, false, "%s", what)
}

// checkTombstone reports a tombstone whose identity no longer has a head. The tombstone should have been deleted before the
// head.
func (k *checker) checkTombstone(ctx context.Context, row storage.Entity, s store.Slot) error {
	h, err := k.ReadHead(ctx, store.FirstOf(row), s.Identity)
	if err != nil || h != nil {
		return err
	}
	if _, found, err := k.Index.Get(ctx, row.Key); err != nil || !found { // the row has just been deleted
		return err
	}
	k.reportUnknown(row, "the tombstone should have been deleted")
	return nil
}

// checkDeletedRow handles a row that contains a deleted record. Either the row is older than the deletion, or it contains a
// later write that is not in the log.
func (k *checker) checkDeletedRow(ctx context.Context, row storage.Entity, s store.Slot, h *store.Head) error {
	if changing, err := k.isChanging(ctx, h); changing || err != nil {
		return err
	}
	now, found, err := k.Index.Get(ctx, row.Key)
	if err != nil || !found || now.ETag != row.ETag { // the row has changed since it was read
		return err
	}
	what, allowed := "the row contains a deleted record", k.repair
	if s.Version > h.Version {
		what, allowed = newerThanLog, false
	}
	return k.repairAndReport(allowed, row.Key, what, func() error {
		return k.Index.Write(ctx, storage.Op{Kind: storage.Replace, IfMatch: row.ETag, Row: store.IndexRow(h.Write, index.PartitionKey(row.Key.Partition), record.Record{}).Row()})
	})
}

// placement describes an index row that is found where another record's index row should be.
type placement int

const (
	belongs   placement = iota // this key is also a key of the row's own record, so the row is in the right place
	stray                      // the row is in the wrong place, and its content is not in the log
	strayCopy                  // the row is in the wrong place, but its content is in the log, so deleting the row loses nothing
)

// placementOf returns the placement of x's row.
func (k *checker) placementOf(ctx context.Context, x store.Copy) (placement, error) {
	if x.Slot.State == wal.Tombstone {
		h, err := k.ReadHead(ctx, store.FirstOf(x.Row), x.Slot.Identity)
		if h != nil && h.HasRowAt(x.At) {
			return belongs, err
		}
		return strayCopy, err
	}
	r := store.ContentOf(x.Row)
	id, err := k.Identify(r)
	if err != nil {
		return stray, nil
	}
	if store.WriteFor(id).HasRowAt(x.At) {
		return belongs, nil
	}
	h, err := k.ReadHead(ctx, id.First(), id.Hash())
	if err != nil || h == nil || x.Slot.Version == 0 || x.Slot.Version > h.Version {
		return stray, err
	}
	if h.Gone || x.Slot.Version < h.Version {
		return strayCopy, nil
	}
	all, err := k.Copies(ctx, h.Write)
	if err != nil || store.HashOf(r) != h.Content {
		return stray, err
	}
	if _, known, err := k.Logged(ctx, h, all); !known {
		return stray, err
	}
	return strayCopy, nil
}

// checkMisplacedRow handles a row that contains a record, but does not have the key of any of the record's index rows.
func (k *checker) checkMisplacedRow(ctx context.Context, row storage.Entity, id index.Identity, r record.Record) error {
	there, err := k.WrittenEverywhere(ctx, id, r)
	if err != nil {
		return err
	}
	what, allowed := "the row's key does not match the values of its record", k.repair
	if !there {
		what, allowed = what+", and its contents differ from the record's other rows", false
	}
	return k.repairAndReport(allowed, row.Key, what, func() error { return k.DeleteRow(ctx, row) })
}
