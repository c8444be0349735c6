package catalog

import (
	"context"
	"fmt"
	"time"

	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/logtail"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
)

// Change is a write that was applied.
type Change struct {
	ID   string    `json:"id"` // its place among the changes
	Time time.Time `json:"time"`
	Kind wal.Kind  `json:"kind"`
	// Record is what was written; of a deletion, the record as it was found.
	Record record.Record `json:"record"`
}

// changes returns the log of the changes in some shards.
func (c *Catalog) changes(shards ...string) logtail.Log {
	return logtail.Log{Table: c.Log, Partitions: shards, Prefix: changePrefix}
}

// Changes returns the newest changes, newest first, top of them at most: 1 to
// MaxTop. It goes on with those that are older than cursor, if that is not "". next is
// the cursor to go on with, "" at the end. since, unless it is zero, leaves out those
// that are not newer. Changes are kept for
// [Options.KeepChanges]. It costs one request for each of the 16 shards.
func (c *Catalog) Changes(ctx context.Context, top int, cursor string, since time.Time) (all []Change, next string, err error) {
	if top < 1 || top > MaxTop {
		return nil, "", problem.Invalidf("top", "must be a number from 1 to %d", MaxTop)
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
	log := c.changes(shardNames()...)
	tail, err := log.Newest(ctx, span, top)
	if err != nil {
		return nil, "", fmt.Errorf("catalog %s: %w", c.Name, err)
	}
	for _, row := range tail.Rows {
		e, err := entryOf(row)
		if err != nil {
			return nil, "", err
		}
		all = append(all, Change{e.id, e.Time, e.Kind, e.record})
	}
	if tail.More {
		next = all[len(all)-1].ID
	}
	return all, next, nil
}
