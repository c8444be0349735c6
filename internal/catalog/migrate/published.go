package migrate

import (
	"context"
	"errors"

	"tablesweep/internal/catalog"
	"tablesweep/internal/catalog/store"
	"tablesweep/internal/key"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
)

// The log of the published program: entries in the order of their RowKeys, and a checkpoint
// with the RowKey of the last one that it has carried out.
const (
	publishedPartition = "wal"
	publishedDateTime  = "datetime"
	publishedDelete    = "delete"
)

var publishedCheckpoint = key.Key{Partition: "metadata", Row: "checkpoint"}

// entries carries out the published program's entries behind its checkpoint, and moves the
// checkpoint. It leaves entries that it can't carry out.
func (m *migrator) entries(ctx context.Context) error {
	checkpoint, _, err := m.Log.Get(ctx, publishedCheckpoint)
	if storage.HasCode(err, "TableNotFound") { // in a dry run
		return nil
	}
	if err != nil {
		return err
	}
	partition := publishedPartition
	q := storage.Query{Range: key.Range{Partition: &partition, Low: &key.Bound{Key: checkpoint.Get(publishedDateTime), Open: true}}}
	return m.Log.All(ctx, q, func(p storage.Page) error {
		for _, row := range p.Entities {
			if err := m.entry(ctx, row); err != nil {
				return err
			}
			if m.dryRun {
				continue
			}
			err := m.Log.Write(ctx, storage.Op{Kind: storage.Replace, Entity: storage.Entity{
				Key: publishedCheckpoint, Properties: []storage.Property{storage.StringProperty(publishedDateTime, row.Key.Row)},
			}})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// entry carries out one entry of the published program.
func (m *migrator) entry(ctx context.Context, row storage.Entity) error {
	r := store.Without(record.FromProperties(row.Properties), store.PublishedOperation)
	id, err := m.Identify(r)
	if err != nil {
		m.leave(row.Key, "the log's entry does not hold a record: %v", err)
		return nil
	}
	h, err := m.ReadHead(ctx, id.First(), id.Hash())
	if err != nil {
		return err
	}
	live := h.Live()
	var do func() error
	switch operation := row.Get(store.PublishedOperation); {
	case operation != store.PublishedInsert && operation != publishedDelete:
		m.leave(row.Key, "the log's entry has the operation %q", operation)
		return nil
	case m.contentOf(id).ambiguous || live && h.Content != r.Hash():
		m.leave(row.Key, "there is a record whose index and sort values differ from the log's entry in case only, with other contents")
		return nil
	case operation == store.PublishedInsert && live, operation == publishedDelete && !live:
		return nil
	case operation == publishedDelete:
		do = func() error {
			_, err := m.Remove(ctx, h.First, h.Identity, r, catalog.Condition{})
			return err
		}
	case h == nil:
		do = func() error { return m.Adopt(ctx, id, r) }
	default:
		do = func() error { return m.Restore(ctx, h, id, r) }
	}
	done, err := m.attempt(row.Key, do)
	if done {
		m.count(&m.sum.Entries)
	}
	if errors.Is(err, catalog.ErrRaced) {
		return nil
	}
	return err
}
