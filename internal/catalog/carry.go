package catalog

import (
	"context"
	"errors"
	"slices"

	"tablesweep/internal/catalog/store"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/key"
	"tablesweep/internal/logtail/claim"
	"tablesweep/internal/problem"
	"tablesweep/internal/storage"
)

// carryOut applies an entry that this process has just committed.
func (c *Catalog) carryOut(ctx context.Context, e store.Entry) error {
	done, err := c.apply(ctx, e, e.Writes, nil)
	if errors.As(err, new(*collision)) || e.Kind == wal.Insert && hopeless(err) {
		return c.redo(ctx, e) // perhaps we are late, and the new owner of the row key is right
	}
	return c.conclude(ctx, e, done, err)
}

// complete applies an entry of another writer, if it is still pending.
func (c *Catalog) complete(ctx context.Context, shard, id string) error {
	row, found, err := c.Log.Get(ctx, key.Key{Partition: shard, Row: store.EntryPrefix + id})
	if err != nil || !found {
		return err
	}
	e, err := store.EntryOf(row)
	if err != nil {
		return err
	}
	return c.redo(ctx, e)
}

// completeAll applies those of the shard's pending entries that have a write of the wanted ones. some means that there were any.
func (c *Catalog) completeAll(ctx context.Context, shard string, wanted func(wal.Write) bool) (some bool, err error) {
	err = c.Log.All(ctx, store.PrefixQuery(shard, store.EntryPrefix), func(p storage.Page) error {
		for _, row := range p.Entities {
			e, err := store.EntryOf(row)
			if err != nil || !slices.ContainsFunc(e.Writes, wanted) {
				continue // recovery reports entries that it can't read
			}
			if err := c.redo(ctx, e); !settled(err) { // a hopeless one must not be in the way
				return err
			}
			some = true
		}
		return nil
	})
	return some, err
}

// settled reports whether nothing is left to do for an entry, by the error of redo: it was applied or withdrawn, or it is
// hopeless.
func settled(err error) bool {
	return err == nil || hopeless(err) || errors.As(err, new(*withdrawn))
}

// redo applies an entry again, no matter who committed it and when. If another record has
// taken the row key of an insertion, or the service refuses its rows for good, redo withdraws the
// insertion and says so.
func (c *Catalog) redo(ctx context.Context, e store.Entry) error {
	writes, newer, err := c.current(ctx, e)
	if err != nil {
		return err
	}
	for _, id := range newer { // once an entry has gone, all rows have its writes, or later ones
		if err := c.complete(ctx, e.Shard, id); !settled(err) {
			return err
		}
	}
	done, err := c.apply(ctx, e, writes, nil)
	if e.Kind == wal.Insert && hopeless(err) {
		return c.withdraw(ctx, e, err)
	}
	if err != nil {
		return err
	}
	done.sure = true // current has noted what is in doubt
	return c.finish(ctx, finished{e, done})
}

// current returns those writes of an entry that are the newest of their identities. Their
// heads are marked as not sure: this process carries out another's entry. newer are the entries that have overtaken the others.
func (c *Catalog) current(ctx context.Context, e store.Entry) (writes []wal.Write, newer []string, err error) {
	for _, w := range e.Writes {
		h, err := c.headInDoubt(ctx, e, w)
		switch {
		case err != nil:
			return nil, nil, err
		case h != nil && h.Entry == e.ID:
			writes = append(writes, w)
		case h != nil:
			newer = append(newer, h.Entry)
		}
	}
	return writes, newer, nil
}

// headInDoubt returns the head of the write's identity, nil for none. If the entry is its
// newest, the head is marked as not sure.
func (c *Catalog) headInDoubt(ctx context.Context, e store.Entry, w wal.Write) (*store.Head, error) {
	for {
		h, err := c.ReadHead(ctx, w.First, w.Identity)
		if err != nil || h == nil || h.Entry != e.ID || !h.Sure {
			return h, err
		}
		if err := c.Log.Write(ctx, store.Doubt(e.Shard, w, h.ETag)); !store.Overtaken(err) {
			return h, err
		}
	}
}

// withdraw takes back an insertion that can't be applied. One transaction deletes its entry
// and commits a removal. The first to change the record or to complete the insertion wins.
func (c *Catalog) withdraw(ctx context.Context, e store.Entry, cause error) error {
	w := e.Writes[0]
	h, err := c.ReadHead(ctx, w.First, w.Identity)
	if err != nil {
		return err
	}
	if h != nil && h.Entry == e.ID {
		removal, _ := wal.Removal(h.State())
		undo, raced, err := c.commit(ctx, wal.Undo, e.Record, []headUpdate{{h, removal, ""}}, claim.ID{}, deletion(e))
		if err != nil {
			return err
		}
		if !raced {
			done, err := c.apply(ctx, undo, undo.Writes, nil) // a removal collides with nothing
			if err := c.conclude(ctx, undo, done, err); err != nil {
				return err
			}
			return c.takenBack(cause)
		}
	}
	if _, there, err := c.Recorded(ctx, e.Shard, e.ID); there || err != nil {
		return err
	}
	// Another process has withdrawn it, and may have died before the rows were gone.
	if h, err = c.ReadHead(ctx, w.First, w.Identity); err == nil && h != nil {
		err = c.complete(ctx, e.Shard, h.Entry)
	}
	if !settled(err) {
		return err
	}
	return c.takenBack(cause)
}

// conclude ends the first application of an entry; err is what apply returned. The entry
// moves to the changes in the background.
func (c *Catalog) conclude(ctx context.Context, e store.Entry, done applied, err error) error {
	if err != nil {
		return problem.Busyf("", "the write is committed and will be completed, but is not yet visible under every key; it may be sent again").Because(err)
	}
	c.finishLater(ctx, finished{e, done})
	return nil
}

// withdrawn means that an insertion can't be applied, and was withdrawn.
type withdrawn struct{ error }

func (e *withdrawn) Unwrap() error { return e.error }

// takenBack returns the error of an insertion that was withdrawn.
func (c *Catalog) takenBack(cause error) error {
	if errors.As(cause, new(*collision)) {
		return &withdrawn{c.inTheWay(cause)}
	}
	return &withdrawn{unstorable(cause)}
}
