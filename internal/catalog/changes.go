package catalog

import (
	"context"
	"fmt"
	"time"

	"tablesweep/internal/catalog/store"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/input"
	"tablesweep/internal/logtail"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
)

// Change is a write that was applied.
type Change struct {
	ID   string    `json:"id"` // its position among the changes; also a cursor
	Time time.Time `json:"time"`
	Kind wal.Kind  `json:"kind"`
	// Record is the record that was written or, for a deletion, the one that was deleted.
	Record record.Record `json:"record"`
}

// changes returns the changes of some shards as a log.
func (c *Catalog) changes(shards ...string) logtail.Log {
	return logtail.Log{Table: c.Log, Partitions: shards, Prefix: store.ChangePrefix}
}

// Changes returns at most top changes (1 to MaxTop), newest first: those older than cursor,
// if it is not "", and newer than since, if it is not zero. next is the cursor for the next
// page, "" after the last one. Changes are kept for [Options.KeepChanges]. A page costs one
// request for each of the 16 shards.
func (c *Catalog) Changes(ctx context.Context, top int, cursor string, since time.Time) (all []Change, next string, err error) {
	if err := input.Top(top, MaxTop); err != nil {
		return nil, "", err
	}
	if cursor != "" {
		if _, err := logtail.KeyTime(cursor); err != nil {
			return nil, "", problem.Invalidf("cursor", "is not one that this list returned")
		}
	}
	span := logtail.Span{Older: cursor}
	if !since.IsZero() {
		span.Newer = logtail.Since(since)
	}
	log := c.changes(store.ShardNames()...)
	tail, err := log.Newest(ctx, span, top)
	if err != nil {
		return nil, "", fmt.Errorf("catalog %s: %w", c.Name, err)
	}
	for _, row := range tail.Rows {
		e, err := store.EntryOf(row)
		if err != nil {
			return nil, "", err
		}
		all = append(all, Change{e.ID, e.Time, e.Kind, e.Record})
	}
	if tail.More {
		next = all[len(all)-1].ID
	}
	return all, next, nil
}
