package catalog

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"tablesweep/internal/catalog/store"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/key"
	"tablesweep/internal/logtail"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
)

// newEntry returns an entry whose time is later than that of the heads. It is made just before its commit, by the service's
// clock: who follows the changes counts on it that no entry is committed more than a minute after its time.
func (c *Catalog) newEntry(kind wal.Kind, first string, r record.Record, heads ...*wal.Head) store.Entry {
	// Each entry has a clock of its own. Otherwise, one head from a writer whose clock is far
	// ahead would date all later entries.
	id := logtail.NewClock().NextKey(wal.After(c.serviceNow(), heads...))
	t, err := logtail.KeyTime(id)
	if err != nil {
		panic("catalog: internal error: " + err.Error())
	}
	return store.Entry{Entry: wal.Entry{Kind: kind, Time: t}, ID: id, Shard: store.ShardOf(first), Record: r}
}

// headUpdate makes a write the newest of its identity.
type headUpdate struct {
	from    *store.Head // as it was read, nil for none
	to      wal.Write
	content string // hash of the record; "" if it is gone
}

// commit inserts the entry, updates the heads and does more operations, all in one
// transaction. raced means that nothing was done because a head had changed.
func (c *Catalog) commit(ctx context.Context, e store.Entry, updates []headUpdate, more ...storage.Op) (raced bool, err error) {
	ops := []storage.Op{{Kind: storage.Insert, Entity: store.EntryRow(store.EntryPrefix, e)}}
	for _, u := range updates {
		op := storage.Op{Kind: storage.Insert, Entity: store.HeadRow(e.Shard, u.to, e.ID, u.content, u.from == nil || u.from.Sure)}
		if u.from != nil {
			op.Kind, op.IfMatch = storage.Replace, u.from.ETag
		}
		ops = append(ops, op)
	}
	committing, cancel := context.WithTimeout(ctx, commitTime)
	defer cancel()
	err = c.Log.Write(committing, append(ops, more...)...)
	switch {
	case err == nil:
		return false, nil
	case store.Overtaken(err):
		// Perhaps by the first try of this request, whose answer was lost.
		_, ours, err := c.Recorded(ctx, e.Shard, e.ID)
		if err != nil {
			return false, &unanswered{err}
		}
		return !ours, nil
	case hopeless(err):
		return false, unstorable(err)
	}
	passing := storage.Passing(err)
	if err = fmt.Errorf("catalog %s: record the write: %w", c.Name, err); passing {
		err = &unanswered{err}
	}
	return false, err
}

// unanswered means that nobody knows whether a write was committed.
type unanswered struct{ error }

func (e *unanswered) Unwrap() error { return e.error }

// finish moves an applied entry to the changes, and notes its tombstones for deletion. If
// a request that applied the entry may still be carried out, the heads are marked.
func (c *Catalog) finish(ctx context.Context, e store.Entry, done applied) error {
	ops := []storage.Op{deletion(e)}
	if e.Kind != wal.Undo {
		ops = append(ops, storage.Op{Kind: storage.Insert, Entity: store.EntryRow(store.ChangePrefix, e)})
	}
	if gone := removalsOf(e.Writes); len(gone) > 0 {
		what := storage.StringProperty("Writes", store.Encode(gone))
		later := c.clearLater(e.Shard, e.ID, what)
		ops = append(ops, later, storage.Op{Kind: storage.Replace, Entity: storage.Entity{
			Key: key.Key{Partition: e.Shard, Row: store.TombstonePrefix + e.ID},
			Properties: []storage.Property{
				what, storage.StringProperty("Later", later.Entity.Key.Row), storage.StringProperty("Rows", store.Encode(done.gone)),
			},
		}})
	}
	if !done.sure {
		for _, w := range e.Writes {
			ops = append(ops, store.Doubt(e.Shard, w, "*"))
		}
	}
	err := c.Log.Write(ctx, ops...)
	if storage.Conflict(err) {
		_, there, asked := c.Log.Get(ctx, key.Key{Partition: e.Shard, Row: store.ChangePrefix + e.ID})
		switch {
		case asked != nil:
			return asked
		case !there: // the answer is about an upsert: others write that row at this moment
			return c.busy()
		}
		err = c.Log.Write(ctx, ops[0]) // a backup has brought the entry back
	}
	if store.Overtaken(err) { // another process has finished it
		return nil
	}
	return err
}

// deletion returns the operation that deletes an entry.
func deletion(e store.Entry) storage.Op {
	return storage.Op{Kind: storage.Delete, Entity: storage.Entity{Key: key.Key{Partition: e.Shard, Row: store.EntryPrefix + e.ID}}}
}

// removalsOf returns the writes that leave tombstones.
func removalsOf(writes []wal.Write) []wal.Write {
	return slices.DeleteFunc(slices.Clone(writes), func(w wal.Write) bool { return !w.Gone })
}

// clearLater returns the operation that notes something for deletion after clearAfter. id keeps it apart from
// other notes.
func (c *Catalog) clearLater(shard, id string, what storage.Property) storage.Op {
	return storage.Op{Kind: storage.Replace, Entity: storage.Entity{
		Key:        key.Key{Partition: shard, Row: store.ClearPrefix + key.Inverted(c.now().Add(clearAfter)) + "|" + id},
		Properties: []storage.Property{what},
	}}
}

// unstorable: the service refuses a record for good, and it was not written.
func unstorable(cause error) error {
	if storage.HasCode(cause, "EntityTooLarge", "PropertyValueTooLarge", "TooManyProperties", "RequestBodyTooLarge") {
		return problem.TooLargef("", "the record is too large for a row; shorten it").Because(cause)
	}
	return problem.Invalidf("", "the storage refuses the record; change what it names").Because(cause)
}

// hopeless reports whether an error of redo is permanent.
func hopeless(err error) bool {
	var refused *storage.Error
	switch {
	case errors.As(err, new(*problem.Error)):
		return false
	case errors.As(err, &refused):
		return refused.Status == http.StatusBadRequest || refused.Status == http.StatusRequestEntityTooLarge
	}
	return errors.As(err, new(*collision))
}
