package catalog

import (
	"context"
	"slices"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/store"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
	"tablesweep/internal/stream/claim"
)

// The functions below change records for package check and package migrate.

// Move moves the head's record r to another identity.
func (mt *Maintainer) Move(ctx context.Context, h *store.Head, id index.Identity, r record.Record) error {
	w := store.WriteFor(id)
	if store.ShardOf(h.First) == store.ShardOf(w.First) {
		d, err := mt.stages.replacement(ctx, h, w, r)
		if err == nil {
			_, err = mt.stages.do(ctx, d, claim.ID{})
		}
		return err
	}
	target, err := mt.ReadHead(ctx, w.First, w.Identity)
	switch {
	case err != nil:
		return err
	case target != nil && !target.Gone && target.Content != store.HashOf(r):
		return identityTaken(w.Row)
	case target == nil || target.Gone || target.Version < h.Version: // a live target is older than h if a change of the schema was reverted; the record then moves back
		w = wal.TakeIdentity(h.State(), target.State(), w, mt.Clock())
		if _, err := mt.stages.do(ctx, insertDecision(target, w, r), claim.ID{}); err != nil {
			return err
		}
	}
	_, err = mt.Remove(ctx, h.First, h.Identity, r)
	return err
}

// Adopt adds a record to the log if only index rows contain it. It also writes all index rows of the record. If the rows
// have versions, Adopt uses the record of the newest row instead of r. If the newest row is a tombstone, or if several rows
// with the newest version have different contents, the error is a Conflict.
func (mt *Maintainer) Adopt(ctx context.Context, id index.Identity, r record.Record) error {
	w := store.WriteFor(id)
	all, err := mt.Copies(ctx, w)
	if err != nil {
		return err
	}
	before := &wal.Head{Write: wal.Write{Gone: true}}
	all = slices.DeleteFunc(all, func(x store.Copy) bool { return x.Slot.State == wal.NoRow || x.Slot.Identity != w.Identity }) // leaves out rows of other records; for these rows, apply returns a collision
	for _, x := range all {
		if x.Slot.Version > before.Version {
			before.Version, r = x.Slot.Version, x.Record
		}
	}
	for _, x := range all {
		of, err := mt.Identify(r)
		switch {
		case x.Slot.Version < before.Version:
		case x.Slot.State == wal.Tombstone:
			return problem.Conflictf("", "the row %q in the partition %q is a tombstone, so the record was deleted", x.At.Row, x.At.Partition)
		case store.HashOf(store.ContentOf(x.Row)) != store.HashOf(r), err != nil, of.Hash() != w.Identity:
			return problem.Conflictf("", "the row %q in the partition %q has the index and sort values of the record, but other contents", x.At.Row, x.At.Partition)
		}
	}
	w, _ = wal.Insertion(before, w, "", mt.Clock())
	_, err = mt.stages.do(ctx, insertDecision(nil, w, r), claim.ID{})
	return err
}

// Restore writes a deleted record again. The argument h is the deleted record's head.
func (mt *Maintainer) Restore(ctx context.Context, h *store.Head, id index.Identity, r record.Record) error {
	w, verdict := wal.Insertion(h.State(), store.WriteFor(id), store.HashOf(r), mt.Clock())
	if verdict != wal.Commit {
		return ErrRaced
	}
	_, err := mt.stages.do(ctx, insertDecision(h, w, r), claim.ID{})
	return err
}

// Remove deletes the record r of an identity. If the record was already deleted or has moved, Remove returns false, and
// completes the write that has deleted or moved the record.
func (mt *Maintainer) Remove(ctx context.Context, first index.FirstHash, identity index.IdentityHash, r record.Record) (bool, error) {
	return mt.stages.removeAt(ctx, nil, first, identity, r, nil, nil)
}
