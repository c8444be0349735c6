package catalog

import (
	"cmp"
	"context"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/store"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/logtail/claim"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
)

// The functions here make a write: package wal decides it on the heads as they were read,
// commit records it, and carryOut writes the index rows. Those that return raced make one
// try; raced means that nothing was done because a head had changed.

// add tries to insert the record. h is its identity's head.
func (c *Catalog) add(ctx context.Context, h *store.Head, id index.Identity, r record.Record, o claim.ID) (done Written, raced bool, err error) {
	content := r.Hash()
	w, verdict := wal.Insertion(h.State(), store.WriteFor(id), content, c.now())
	switch verdict {
	case wal.Same:
		return c.unchanged(ctx, h, r, o)
	case wal.Taken:
		return Written{}, false, refuse(c.taken(id.Row), id.First())
	}
	raced, err = c.enter(ctx, r, headUpdate{h, w, content}, o)
	if err != nil || raced {
		return Written{}, raced, err
	}
	return Written{Created, metaOf(w), r}, false, nil
}

// enter commits a decided insertion, and carries it out.
func (c *Catalog) enter(ctx context.Context, r record.Record, u headUpdate, o claim.ID) (raced bool, err error) {
	e, raced, err := c.commit(ctx, wal.Insert, r, []headUpdate{u}, o)
	if err != nil || raced {
		return raced, err
	}
	return false, c.carryOut(ctx, e)
}

// replace tries to replace the record of head old by the record r, whose index rows w
// describes.
func (c *Catalog) replace(ctx context.Context, old *store.Head, w wal.Write, r record.Record, o claim.ID) (done Written, raced bool, err error) {
	var target *store.Head
	if old != nil && old.Identity != w.Identity {
		if target, err = c.ReadHead(ctx, w.First, w.Identity); err != nil {
			return Written{}, false, err
		}
	}
	content := r.Hash()
	writes, verdict := wal.Replacement(old.State(), target.State(), w, content, c.now())
	switch verdict {
	case wal.Same:
		return c.unchanged(ctx, old, r, o)
	case wal.Absent:
		return Written{}, false, problem.NotFoundf("", "there is no such record to replace: insert it")
	case wal.Taken:
		// Perhaps it is the record itself, which has moved there since its head was read.
		now, err := c.ReadHead(ctx, old.First, old.Identity)
		if err == nil && (now == nil || now.ETag != old.ETag) {
			return Written{}, true, nil
		}
		return Written{}, false, cmp.Or(err, refuse(c.taken(w.Row), w.First))
	}
	updates := []headUpdate{{old, writes[0], content}}
	if len(writes) == 2 {
		if err := c.free(ctx, writes[1]); err != nil {
			return Written{}, false, err
		}
		updates = []headUpdate{{old, writes[0], ""}, {target, writes[1], content}}
	}
	if err := c.afterMove(ctx, old); err != nil {
		return Written{}, false, err
	}
	last := writes[len(writes)-1]
	e, raced, err := c.commit(ctx, wal.Replace, r, updates, o)
	if err != nil || raced {
		return Written{}, raced, err
	}
	return Written{Replaced, metaOf(last), r}, false, c.carryOut(ctx, e)
}

// afterMove comes before a write that replaces or removes the record of the head old. If a move has brought the record
// there, the move's rows must be written first. Else a query by what the record has left would find it
// as it was, after the later write is acknowledged.
func (c *Catalog) afterMove(ctx context.Context, old *store.Head) error {
	if old.Instead == nil {
		return nil
	}
	if err := c.complete(ctx, store.ShardOf(old.First), old.Entry); !settled(err) { // a hopeless one must not block a deletion
		return err
	}
	return nil
}

// unchanged completes the last write of the head, whose record is r already.
func (c *Catalog) unchanged(ctx context.Context, h *store.Head, r record.Record, o claim.ID) (done Written, raced bool, err error) {
	shard := store.ShardOf(h.First)
	if err = c.complete(ctx, shard, h.Entry); err == nil && !o.None() {
		err = c.Log.Write(ctx, onceOps(o, shard, h.Entry, h.Write, Unchanged)...)
	}
	if storage.Conflict(err) { // the key was used meanwhile
		return Written{}, true, nil
	}
	return Written{Unchanged, metaOf(h.Write), r}, false, err
}

// Remove deletes the record r of an identity. If the record is gone already or has moved,
// it returns false, and completes the write that has done that.
func (c *Catalog) Remove(ctx context.Context, first, identity string, r record.Record) (bool, error) {
	return c.removeAt(ctx, nil, first, identity, r, nil, nil)
}

// removeAt is Remove where the identity's head was perhaps read, and slots is as in remove. An error of stays, unless that
// is nil, keeps a head's record.
func (c *Catalog) removeAt(ctx context.Context, h *store.Head, first, identity string, r record.Record, stays func(*store.Head) error, slots func() map[string]store.Slot) (done bool, err error) {
	for range maxRaces {
		if h == nil {
			if h, err = c.ReadHead(ctx, first, identity); err != nil {
				return false, err
			}
		}
		if !h.Live() {
			if h == nil {
				return false, c.unknown()
			}
			return false, c.complete(ctx, store.ShardOf(first), h.Entry)
		}
		if stays != nil {
			if err := stays(h); err != nil {
				return false, err
			}
		}
		if done, err := c.remove(ctx, h, r, claim.ID{}, slots); done || err != nil {
			return done, err
		}
		h = nil
	}
	return false, c.busy()
}

// remove tries to delete the record r of a live head, for a request with the id. If done, the deletion is committed, even with an
// error. If neither done nor failed, another write or another try was first. slots, unless nil, returns what is known of
// the index rows, by partition.
func (c *Catalog) remove(ctx context.Context, h *store.Head, r record.Record, o claim.ID, slots func() map[string]store.Slot) (done bool, err error) {
	w, _ := wal.Removal(h.State()) // a live head has a record to remove
	if err := c.afterMove(ctx, h); err != nil {
		return false, err
	}
	e, raced, err := c.commit(ctx, wal.Delete, r, []headUpdate{{h, w, ""}}, o)
	if err != nil || raced {
		return false, err
	}
	var known map[string]store.Slot
	if slots != nil {
		known = slots()
	}
	did, err := c.apply(ctx, e, e.Writes, known) // a removal collides with nothing
	return true, c.conclude(ctx, e, did, err)
}
