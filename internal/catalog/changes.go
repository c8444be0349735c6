package catalog

import (
	"context"
	"fmt"
	"sync"
	"time"

	"tablesweep/internal/catalog/store"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/input"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
	"tablesweep/internal/stream/logtail"
)

// Change is a write that was applied.
type Change struct {
	ID   string    `json:"id"`   // the change's position in the list of changes; also a cursor
	Time time.Time `json:"time"` // the time of the commit
	Kind wal.Kind  `json:"kind"`
	// RecordID and ETag have the values of the record's [Meta]. Of all changes with one RecordID, the change with the greatest
	// ETag is the latest. The ETag of a deletion is never the ETag of a record.
	RecordID string `json:"recordId"`
	ETag     string `json:"etag"`
	OldID    string `json:"oldId,omitzero"` // the record's former ID, if this change has changed the ID
	// Record is the written record or, for a deletion, the deleted record.
	Record record.Record `json:"record"`
}

func changeOf(row storage.Row) (Change, error) {
	e, err := store.EntryOf(row.Entity())
	if err == nil && len(e.Writes) == 0 {
		err = fmt.Errorf("the log entry %s contains no writes", row.Key.Row)
	}
	if err != nil {
		return Change{}, err
	}
	last := metaOf(e.Writes[len(e.Writes)-1])
	change := Change{ID: string(e.ID), Time: e.Time, Kind: e.Kind, RecordID: last.ID, ETag: last.ETag, Record: e.Record}
	if len(e.Writes) > 1 {
		change.OldID = metaOf(e.Writes[0]).ID
	}
	return change, nil
}

// changeLog returns the changes of all shards in the log's table as one log.
func changeLog(table *storage.Table, sizes *logtail.Sizes) logtail.Log {
	var shards []logtail.Shard
	for _, shard := range store.Shards() {
		shards = append(shards, logtail.Shard(shard))
	}
	return logtail.Log{Table: table, Shards: shards, Prefix: store.ChangePrefix, Sizes: sizes}
}

// Changes calls the function `take` with each change, newest first, until `take` returns false. The argument `top`, from 1 to
// MaxTop, is the maximum number of changes. If `cursor` is not "", Changes lists only changes older than the cursor. If `since`
// is not zero, Changes lists only changes after that time. The result `next` is the cursor for the next page, or "" after the
// last page. Changes are kept for [Options.KeepChanges]. A page costs one request for each of the 16 shards.
//
// A change is listed only after its index rows are written. Therefore an older change may become visible after a newer one.
// [Reader.ChangesAfter] finds every change.
func (rd *Reader) Changes(ctx context.Context, top int, cursor string, since time.Time, take func(Change) bool) (next string, err error) {
	if err := input.Top(top, MaxTop); err != nil {
		return "", err
	}
	if cursor != "" {
		if _, err := logtail.KeyTime(cursor); err != nil {
			return "", problem.Invalidf("cursor", "is not a cursor that this list returned; leave it out to start from the beginning")
		}
	}
	span := logtail.Span{Older: cursor}
	if !since.IsZero() {
		span.Newer = logtail.Since(since)
	}
	more, err := changeLog(rd.Log, &rd.logSizes).Newest(ctx, span, top, func(row storage.Row) (taken bool, err error) {
		change, err := changeOf(row)
		if err == nil && take(change) {
			next, taken = change.ID, true
		}
		return taken, err
	})
	if err != nil {
		return "", fmt.Errorf("catalog %s: %w", rd.Name, err)
	}
	if !more {
		return "", nil
	}
	return next, nil
}

// ChangesAfter calls the function `take` with each change after a position. It sorts the changes by id, oldest first. The
// argument `top`, from 1 to MaxTop, is the maximum number of changes. The argument `after` is the position: [logtail.Now], a
// time, the id of a change, or the result of an earlier call. If the position is a time or an id, ChangesAfter lists only
// changes that were committed later. It finds each change once.
//
// Successive calls list changes in the order in which the service has written them. If two writes of one record were
// concurrent, their changes may be listed in the wrong order. The change with the greater ETag belongs to the later write. Most
// calls make 16 requests, one for each shard. About every two minutes, a call makes 32 requests, because it also searches each
// shard for pending writes. If a write is pending for some minutes, every call makes 32 requests until the write is finished,
// and the service searches all changes since that write.
func (rd *Reader) ChangesAfter(ctx context.Context, after string, top int, take func(Change)) (logtail.Next, error) {
	if _, err := rd.guard.Now(ctx); err != nil {
		return logtail.Next{}, err
	}
	feed := logtail.Feed{Log: changeLog(rd.Log, &rd.logSizes), Now: rd.ServiceNow, Oldest: rd.oldestPending}
	next, err := feed.After(ctx, after, top)
	if err == nil {
		err = next.Each(func(row storage.Row) error {
			change, err := changeOf(row)
			if err == nil {
				take(change)
			}
			return err
		})
	}
	if err != nil {
		return logtail.Next{}, fmt.Errorf("catalog %s: %w", rd.Name, err)
	}
	return next, nil
}

// oldestPending returns the time of the oldest pending log entry. If no entry is pending, it returns the current time.
func (rd *Reader) oldestPending(ctx context.Context) (time.Time, error) {
	oldest := rd.ServiceNow()
	var mu sync.Mutex
	err := store.EachShard(func(shard store.Shard) error {
		q := shard.Query(store.EntryPrefix)
		q.Select = []string{}
		return rd.Log.All(ctx, q, func(p storage.Page) error {
			mu.Lock()
			defer mu.Unlock()
			for _, row := range p.Entities() {
				t, err := logtail.KeyTime(row.Key.Row[len(store.EntryPrefix):])
				if err == nil && t.Before(oldest) { // a row without a time is not a log entry; package check reports such rows
					oldest = t
				}
			}
			return nil
		})
	})
	return oldest, err
}
