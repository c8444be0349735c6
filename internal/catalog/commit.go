package catalog

import (
	"context"
	"fmt"

	"tablesweep/internal/catalog/store"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/logtail"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
)

// newEntry returns an entry whose time is later than that of the heads.
func (c *Catalog) newEntry(kind wal.Kind, first string, r record.Record, heads ...*wal.Head) store.Entry {
	// Each entry has a clock of its own. Otherwise, one head from a writer whose clock is far
	// ahead would date all later entries.
	id := logtail.NewClock().NextKey(wal.After(c.now(), heads...))
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
		ours, err := c.Recorded(ctx, e)
		return !ours, err
	case storage.HasCode(err, "EntityTooLarge", "PropertyValueTooLarge", "TooManyProperties", "RequestBodyTooLarge"):
		return false, problem.TooLargef("", "the record is too large for a row; shorten it").Because(err)
	}
	return false, fmt.Errorf("catalog %s: record the write: %w", c.Name, err)
}
