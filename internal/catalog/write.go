package catalog

import (
	"cmp"
	"context"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/store"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
	"tablesweep/internal/stream/claim"
	"tablesweep/internal/task"
)

// Outcome is the effect of a write.
type Outcome string

// The outcomes.
const (
	Created   Outcome = "created"
	Replaced  Outcome = "replaced"
	Unchanged Outcome = "unchanged" // the same record existed already
)

// Written is the result of a write: the write's effect, and the record that now exists.
type Written struct {
	Outcome
	Meta
	Record record.Record
}

// Writer writes and deletes records.
type Writer struct {
	*store.Store
	guard     *SchemaGuard
	reader    *Reader
	chooser   *chooser
	stages    *stages
	committer *committer
}

// After an error of Insert, Put, Replace or Patch, the write may be committed but not yet visible under every key. A retry or
// Maintain completes the write.

// Insert adds a record. If a record with the same identity and other contents exists, the error is a Conflict. The argument
// idempotencyKey may be "". If a call is repeated within a day with the same key and the same r, it returns the first call's
// result, even if the stored record has changed since then. For any other write with this key, the error is KeyReused.
func (wr *Writer) Insert(ctx context.Context, r record.Record, idempotencyKey string) (Written, error) {
	fresh := true // the first try does not read the head, because most likely there is no head
	return wr.writeAt(ctx, r, onceOf(idempotencyKey, store.HashOf(r)), func(id index.Identity) (d decision, err error) {
		var h *store.Head
		if !fresh {
			h, err = wr.ReadHead(ctx, id.First(), id.Hash())
		}
		if fresh = false; err != nil {
			return decision{}, err
		}
		return insertion(wr.Clock(), h, id, r)
	})
}

// Put creates the record. If a record with the same identity exists, Put replaces that record's contents.
func (wr *Writer) Put(ctx context.Context, r record.Record, on Condition) (Written, error) {
	if err := wr.reserve(ctx, wr.writeMemory(r)); err != nil {
		return Written{}, err
	}
	return wr.writeAt(ctx, r, onceOf(on.Once, "put", store.HashOf(r)), func(id index.Identity) (decision, error) {
		h, err := wr.ReadHead(ctx, id.First(), id.Hash())
		if err == nil {
			err = refuse(on.check(h), id.First())
		}
		switch {
		case err != nil:
			return decision{}, err
		case h.Live():
			return wr.stages.replacement(ctx, h, store.WriteFor(id), r)
		}
		return insertion(wr.Clock(), h, id, r)
	})
}

// writeAt writes the record r, for the request with the id o. It calls the function `decide` with the record's identity.
func (wr *Writer) writeAt(ctx context.Context, r record.Record, o claim.ID, decide func(index.Identity) (decision, error)) (Written, error) {
	id, err := wr.Identify(r)
	if err != nil {
		return Written{}, err
	}
	return wr.doOnce(ctx, o, []store.Shard{store.ShardOf(id.First())}, func() (Written, error) {
		return wr.stages.write(ctx, o, func() (decision, error) { return decide(id) })
	})
}

// Replace replaces the only record that the selector finds. The new record may have another
// identity, but must have the same first index value.
func (wr *Writer) Replace(ctx context.Context, r record.Record, selector Lookup, on Condition) (Written, error) {
	id, err := wr.Identify(r)
	if err != nil {
		return Written{}, err
	}
	done, err := wr.changeOne(ctx, selector, on, onceOf(on.Once, "put", selector, store.HashOf(r)), func(*store.Head) (record.Record, bool, error) { return r, true, nil })
	if selector.ID != "" || err == nil || problem.Of(err).Kind != problem.NotFound {
		return done, err
	}
	// If an earlier try has moved the record, and the answer was lost, the selector no longer finds the record.
	h, from, moveErr := wr.movedTo(ctx, id)
	if moveErr != nil || h == nil || h.Content != store.HashOf(r) {
		return done, cmp.Or(moveErr, err)
	}
	if p, planErr := newPlan(wr.Schema, selector); planErr != nil || !p.mayMatch(from) {
		return done, err
	}
	return Written{Unchanged, metaOf(h.Write), r}, wr.stages.complete(ctx, store.ShardOf(h.First), h.Entry)
}

// movedTo checks whether the identity's last write has moved a record to this identity. If so, h is the identity's
// head, and `from` is the write that removed the record from its former identity. Otherwise, h is nil.
func (wr *Writer) movedTo(ctx context.Context, id index.Identity) (h *store.Head, from wal.Write, err error) {
	h, err = wr.ReadHead(ctx, id.First(), id.Hash())
	if err != nil || !h.Live() {
		return nil, wal.Write{}, err
	}
	row, found, err := wr.reader.recorded(ctx, store.ShardOf(h.First), h.Entry)
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
func (wr *Writer) Patch(ctx context.Context, patch []byte, selector Lookup, on Condition) (Written, error) {
	return wr.changeOne(ctx, selector, on, onceOf(on.Once, "patch", selector, string(patch)), func(h *store.Head) (record.Record, bool, error) {
		r, found, err := wr.reader.contents(ctx, h)
		if found && err == nil {
			r, err = r.Merge(patch)
		}
		return r, found, err
	})
}

// changeOne replaces the only record that the selector finds. The function `change` gets the head of the old record, and
// returns the new record r. The result `found` of `change` is false if another write has replaced this head.
func (wr *Writer) changeOne(ctx context.Context, selector Lookup, on Condition, o claim.ID, change func(*store.Head) (r record.Record, found bool, err error)) (Written, error) {
	return wr.writeOne(ctx, selector, on, o, func(h *store.Head) (decision, error) {
		r, found, err := change(h)
		if err != nil || !found {
			return decision{}, cmp.Or(err, ErrRaced)
		}
		id, err := wr.Identify(r)
		if err == nil {
			err = wr.reserve(ctx, wr.writeMemory(r))
		}
		if err != nil {
			return decision{}, err
		}
		if id.First() != h.First {
			return decision{}, problem.Invalidf(wr.Schema.Keys[0].Field, "is the first index key, whose value cannot change; delete the record, and insert the new one")
		}
		return wr.stages.replacement(ctx, h, store.WriteFor(id), r)
	})
}

// Result is the result of one of several writes.
type Result struct {
	Written
	Err error
}

// InsertAll calls Insert for many records at the same time; see [Writer.WriteAll]. The function keyOf returns the
// Idempotency-Key for the record with the index i. If keyOf is nil, no record has a key. The results do not contain the
// records.
func (wr *Writer) InsertAll(ctx context.Context, records record.Some, keyOf func(i int) string) []Result {
	return wr.WriteAll(ctx, records, func(ctx context.Context, i int) (Written, error) {
		key := ""
		if keyOf != nil {
			key = keyOf(i)
		}
		done, err := wr.Insert(ctx, records.At(i), key)
		done.Record = record.Record{}
		return done, err
	})
}

// WriteAll writes records, many at the same time. Records with the same identity are written one after another, in their order.
// WriteAll calls the function `write` with each record's index, and returns a result for each record. If the process dies, some
// records may be missing and others half written. [Maintainer.Maintain] completes those that are half written.
func (wr *Writer) WriteAll(ctx context.Context, records record.Some, write func(ctx context.Context, i int) (Written, error)) []Result {
	results := make([]Result, records.Len())
	var rounds [][]member
	times := map[index.IdentityHash]int{} // number of records with each identity
	for i := range records.Len() {
		r := records.At(i)
		id, err := wr.Identify(r)
		if err != nil {
			results[i].Err = err
			continue
		}
		n := times[id.Hash()]
		if times[id.Hash()]++; n == len(rounds) {
			rounds = append(rounds, nil)
		}
		rounds[n] = append(rounds[n], member{id.First(), weightOf(r), func(ctx context.Context) error {
			results[i].Err = task.Do(func() (err error) {
				results[i].Written, err = write(ctx, i)
				return err
			})
			return nil
		}})
	}
	_ = task.Do(func() error { return wr.guard.Writable(ctx) }) // one check for all records; if it fails, each write checks again
	for _, round := range rounds {
		_ = wr.committer.inGroups(ctx, round) // the results contain the errors
	}
	return results
}
