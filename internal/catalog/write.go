package catalog

import (
	"cmp"
	"context"
	"errors"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/store"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/logtail/claim"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
	"tablesweep/internal/task"
)

// Outcome says what a write did.
type Outcome string

// The outcomes.
const (
	Created   Outcome = "created"
	Replaced  Outcome = "replaced"
	Unchanged Outcome = "unchanged" // the same record existed already
)

// Written is the result of a write: what it did, and the record that exists now.
type Written struct {
	Outcome
	Meta
	Record record.Record
}

// After an error of Insert, Put, Replace or Patch, the write may be committed and not yet
// visible under every key. A retry completes it then, and so does Maintain.

// Insert adds a record. If a record with the same identity and other contents exists, the
// error is a Conflict. once, if not "", is the caller's Idempotency-Key: for a day, an
// insertion with the same key and record returns the first one's result, even if the record
// has changed since, and any other write with the key is a KeyReused.
func (c *Catalog) Insert(ctx context.Context, r record.Record, once string) (Written, error) {
	o := onceOf(once, r.Hash())
	return c.writeAt(ctx, r, o, true, func(h *store.Head, id index.Identity) (Written, bool, error) {
		return c.add(ctx, h, id, r, o)
	})
}

// Put creates the record, or replaces the contents of the record that has its identity.
func (c *Catalog) Put(ctx context.Context, r record.Record, on Condition) (Written, error) {
	o := onceOf(on.Once, "put", r.Hash())
	return c.writeAt(ctx, r, o, false, func(h *store.Head, id index.Identity) (Written, bool, error) {
		switch err := on.check(h); {
		case err != nil:
			return Written{}, false, refuse(err, id.First())
		case h.Live():
			return c.replace(ctx, h, store.WriteFor(id), r, o)
		}
		return c.add(ctx, h, id, r, o)
	})
}

// writeAt writes the record by do, which is given the head of its identity, for a request with the id. If it is fresh, there is most
// likely no head, and the first try does not look.
func (c *Catalog) writeAt(ctx context.Context, r record.Record, o claim.ID, fresh bool, do func(*store.Head, index.Identity) (done Written, raced bool, err error)) (Written, error) {
	if err := c.Writable(ctx); err != nil {
		return Written{}, err
	}
	id, err := c.Identify(r)
	if err != nil {
		return Written{}, err
	}
	var done Written
	err = c.decidedOnce(ctx, o, func() (raced bool, err error) {
		var h *store.Head
		if !fresh {
			var used bool
			if done, used, err = c.answered(ctx, o, store.ShardOf(id.First())); err != nil || used {
				return false, err
			}
			if h, err = c.ReadHead(ctx, id.First(), id.Hash()); err != nil {
				return false, err
			}
		}
		fresh = false
		done, raced, err = do(h, id)
		return raced, err
	})
	return done, err
}

// Replace replaces the only record that the selector finds. The new record may have another
// identity, but must have the same first index value.
func (c *Catalog) Replace(ctx context.Context, r record.Record, selector Lookup, on Condition) (Written, error) {
	id, err := c.Identify(r)
	if err != nil {
		return Written{}, err
	}
	done, err := c.changeOne(ctx, selector, on, onceOf(on.Once, "put", selector, r.Hash()), func(*store.Head) (record.Record, bool, error) { return r, true, nil })
	if selector.ID != "" || err == nil || problem.Of(err).Kind != problem.NotFound {
		return done, err
	}
	// Perhaps the first try, whose answer was lost, has moved the record from where the selector
	// looks.
	h, from, moveErr := c.movedTo(ctx, id)
	if moveErr != nil || h == nil || h.Content != r.Hash() {
		return done, cmp.Or(moveErr, err)
	}
	if p, planErr := c.plan(selector); planErr != nil || !p.names(from) {
		return done, err
	}
	return Written{Unchanged, metaOf(h.Write), r}, c.complete(ctx, store.ShardOf(h.First), h.Entry)
}

// movedTo returns the live head of an identity whose last write has moved its record there, and the
// write that has left the place from before. The head is nil if there is none.
func (c *Catalog) movedTo(ctx context.Context, id index.Identity) (h *store.Head, from wal.Write, err error) {
	h, err = c.ReadHead(ctx, id.First(), id.Hash())
	if err != nil || !h.Live() {
		return nil, wal.Write{}, err
	}
	row, found, err := c.Recorded(ctx, store.ShardOf(h.First), h.Entry)
	if err != nil || !found {
		return nil, wal.Write{}, err
	}
	e, err := store.EntryOf(row)
	if err != nil || len(e.Writes) < 2 {
		return nil, wal.Write{}, err
	}
	return h, e.Writes[0], nil
}

// Patch applies a JSON merge patch (RFC 7396) to the only record that the selector finds.
// If index values or the sort value change, the record moves.
func (c *Catalog) Patch(ctx context.Context, patch []byte, selector Lookup, on Condition) (Written, error) {
	return c.changeOne(ctx, selector, on, onceOf(on.Once, "patch", selector, string(patch)), func(h *store.Head) (record.Record, bool, error) {
		r, found, err := c.contents(ctx, h)
		if found && err == nil {
			r, err = r.Merge(patch)
		}
		return r, found, err
	})
}

// changeOne replaces the only record that the selector finds by the result of change, which is given its
// head. found is false if another write has overtaken that.
func (c *Catalog) changeOne(ctx context.Context, selector Lookup, on Condition, o claim.ID, change func(*store.Head) (r record.Record, found bool, err error)) (Written, error) {
	if err := c.Writable(ctx); err != nil {
		return Written{}, err
	}
	if selector.ID == "" {
		if _, err := c.plan(selector); err != nil {
			return Written{}, err
		}
	}
	var done Written
	err := c.decidedOnce(ctx, o, func() (raced bool, err error) {
		x, err := c.choose(ctx, selector)
		if err == nil || errors.Is(err, errSeveral) { // others may match since the first try
			first, used, err := c.answered(ctx, o, shardsOf(x.head, selector)...)
			if err != nil || used {
				done = first
				return false, err
			}
		}
		if err == nil {
			err = x.check(selector, on)
		}
		if err != nil {
			return false, err
		}
		r, found, err := change(x.head)
		if err != nil || !found {
			return true, err
		}
		id, err := c.Identify(r)
		if err != nil {
			return false, err
		}
		if id.First() != x.head.First {
			return false, problem.Invalidf(c.Schema.Keys[0].Field, "is the first index key, which never changes; delete the record and insert the new one")
		}
		done, raced, err = c.replace(ctx, x.head, store.WriteFor(id), r, o)
		return raced, err
	})
	return done, err
}

// Result is the result of one of several writes.
type Result struct {
	Written
	Err error
}

// InsertAll inserts records as Insert does, many at once; see [Catalog.WriteAll]. once returns the Idempotency-Key of the
// record with an index; nil for none.
func (c *Catalog) InsertAll(ctx context.Context, records []record.Record, once func(i int) string) []Result {
	return c.WriteAll(ctx, records, func(ctx context.Context, i int) (Written, error) {
		key := ""
		if once != nil {
			key = once(i)
		}
		return c.Insert(ctx, records[i], key)
	})
}

// WriteAll writes records by the function write, which is given their indexes, many at once, but those with the same identity
// in their order. It returns a result for each. If the process dies, some are written and some
// are not; after Maintain, none is half written.
func (c *Catalog) WriteAll(ctx context.Context, records []record.Record, write func(ctx context.Context, i int) (Written, error)) []Result {
	results := make([]Result, len(records))
	var rounds [][]member
	times := map[string]int{} // by identity
	for i, r := range records {
		id, err := c.Identify(r)
		if err != nil {
			results[i].Err = err
			continue
		}
		n := times[id.Hash()]
		if times[id.Hash()]++; n == len(rounds) {
			rounds = append(rounds, nil)
		}
		rounds[n] = append(rounds[n], member{id.First(), func(ctx context.Context) error {
			results[i].Err = task.Do(func() (err error) {
				results[i].Written, err = write(ctx, i)
				return err
			})
			return nil
		}})
	}
	_ = task.Do(func() error { return c.Writable(ctx) }) // asks once for all; after an error, each asks again
	for _, round := range rounds {
		_ = c.inGroups(ctx, round) // errors are among the results
	}
	return results
}
