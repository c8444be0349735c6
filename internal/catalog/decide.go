package catalog

import (
	"context"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/store"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
)

// The functions here make a write: package wal decides it on the heads as they were read,
// commit records it, and carryOut writes the index rows. Those that return raced make one
// try; raced means that nothing was done because a head had changed.

// add tries to insert the record. h is its identity's head. once is an Idempotency-Key or
// "".
func (c *Catalog) add(ctx context.Context, h *store.Head, id index.Identity, r record.Record, once string) (done Written, raced bool, err error) {
	content := r.Hash()
	w, verdict := wal.Insertion(h.State(), store.WriteFor(id), content, c.now())
	switch verdict {
	case wal.Same:
		return Written{Unchanged, metaOf(h.Write), r}, false, c.complete(ctx, store.ShardOf(w.First), h.Entry)
	case wal.Taken:
		return Written{}, false, c.taken(id.Row)
	}
	raced, err = c.enter(ctx, r, headUpdate{h, w, content}, once)
	if err != nil || raced {
		return Written{}, raced, err
	}
	return Written{Created, metaOf(w), r}, false, nil
}

// enter commits a decided insertion, and carries it out.
func (c *Catalog) enter(ctx context.Context, r record.Record, u headUpdate, once string) (raced bool, err error) {
	e := c.newEntry(wal.Insert, u.to.First, r, u.from.State())
	e.Writes = []wal.Write{u.to}
	raced, err = c.commit(ctx, e, []headUpdate{u}, c.onceOps(e, once, u.content)...)
	if err != nil || raced {
		return raced, err
	}
	return false, c.carryOut(ctx, e)
}

// replace tries to replace the record of head old by the record r, whose index rows w
// describes.
func (c *Catalog) replace(ctx context.Context, old *store.Head, w wal.Write, r record.Record) (done Written, raced bool, err error) {
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
		return Written{Unchanged, metaOf(old.Write), r}, false, c.complete(ctx, store.ShardOf(w.First), old.Entry)
	case wal.Absent:
		return Written{}, false, problem.NotFoundf("", "there is no such record to replace: insert it")
	case wal.Taken:
		return Written{}, false, c.taken(w.Row)
	}
	e := c.newEntry(wal.Replace, w.First, r, old.State(), target.State())
	e.Writes = writes
	updates := []headUpdate{{old, writes[0], content}}
	if len(writes) == 2 {
		if err := c.free(ctx, writes[1]); err != nil {
			return Written{}, false, err
		}
		updates = []headUpdate{{old, writes[0], ""}, {target, writes[1], content}}
	}
	if raced, err := c.commit(ctx, e, updates); err != nil || raced {
		return Written{}, raced, err
	}
	return Written{Replaced, metaOf(writes[len(writes)-1]), r}, false, c.carryOut(ctx, e)
}

// Remove deletes the record r of an identity. If the record is gone already or has moved,
// it returns false, and completes the write that has done that.
func (c *Catalog) Remove(ctx context.Context, first, identity string, r record.Record, on Condition) (bool, error) {
	for range maxRaces {
		h, err := c.ReadHead(ctx, first, identity)
		if err != nil {
			return false, err
		}
		w, verdict := wal.Removal(h.State())
		if verdict == wal.Absent {
			if h == nil {
				return false, c.unknown()
			}
			return false, c.complete(ctx, store.ShardOf(first), h.Entry)
		}
		if err := on.check(h); err != nil {
			return false, err
		}
		e := c.newEntry(wal.Delete, first, r, h.State())
		e.Writes = []wal.Write{w}
		raced, err := c.commit(ctx, e, []headUpdate{{h, w, ""}})
		if err != nil {
			return false, err
		}
		if !raced {
			return true, c.carryOut(ctx, e)
		}
	}
	return false, c.busy()
}
