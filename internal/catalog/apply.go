package catalog

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"tablesweep/internal/catalog/store"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/key"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// applied is what apply has done.
type applied struct {
	sure bool              // every request was answered at the first try: none can be carried out later
	gone map[string]string // ETags of tombstones that were written, by partition, as far as answers tell
}

// apply writes the index rows of an entry's writes, all partitions at once. If some fail, it
// still writes the others, and returns one of the errors. known has the slots of rows that need not
// be read, by partition; there may be some for a single write only.
func (c *Catalog) apply(ctx context.Context, e store.Entry, writes []wal.Write, known map[string]store.Slot) (applied, error) {
	partitions := map[string][]wal.Write{}
	for _, w := range writes {
		for _, p := range w.Partitions {
			partitions[p] = append(partitions[p], w)
		}
	}
	for p, in := range partitions {
		if len(in) == 2 && in[0].Row == in[1].Row {
			partitions[p] = in[1:] // one row passes from the old identity to the new one, see wal.Write.Instead
		}
	}
	ctx, cancel := context.WithTimeout(ctx, applyTime)
	defer cancel()
	var g task.Group
	var repeated atomic.Bool
	var mu sync.Mutex
	gone := map[string]string{}
	for p, writes := range partitions {
		g.Go(func() error {
			etag, err := c.applyTo(ctx, p, writes, known, e.Record, &repeated)
			if err != nil {
				return fmt.Errorf("catalog %s, index partition %q: %w", c.Name, p, err)
			}
			if len(writes) == 1 && writes[0].Gone && etag != "" {
				mu.Lock()
				defer mu.Unlock()
				gone[p] = etag
			}
			return nil
		})
	}
	err := g.Wait()
	return applied{!repeated.Load(), gone}, err
}

// applyTo writes the rows of one partition in one transaction. So a page never shows a
// moving record twice, and never misses it. applyTo sets repeated if it sent the transaction
// more than once. etag is that of the only row that it has written, "" if the answer does not tell.
func (c *Catalog) applyTo(ctx context.Context, partition string, writes []wal.Write, known map[string]store.Slot, r record.Record, repeated *atomic.Bool) (etag string, err error) {
	slots := make([]store.Slot, len(writes))
	for i, w := range writes {
		if w.Fresh {
			continue // most likely there is no row; if there is, the insertion is refused
		}
		var ok bool
		if slots[i], ok = known[partition]; ok {
			continue
		}
		if slots[i], err = c.readSlot(ctx, partition, w); err != nil {
			return "", err
		}
	}
	for range maxRaces {
		ops, err := rowOps(partition, writes, slots, r)
		if err != nil || len(ops) == 0 {
			return "", err
		}
		var tries storage.Counter
		batch := c.Index.With(storage.RequestOptions{Counter: &tries}).Batch()
		for _, op := range ops {
			batch.Add(op) // there are two at most
		}
		err = batch.Do(ctx)
		if tries.Requests() > 1 {
			repeated.Store(true)
		}
		if err == nil || !store.Overtaken(err) {
			return batch.ETag(), err
		}
		for i, w := range writes {
			if slots[i], err = c.readSlot(ctx, partition, w); err != nil {
				return "", err
			}
		}
	}
	return "", c.busy()
}

// readSlot reads the write's row in a partition.
func (c *Catalog) readSlot(ctx context.Context, partition string, w wal.Write) (store.Slot, error) {
	row, found, err := c.Index.Get(ctx, key.Key{Partition: partition, Row: w.Row})
	if err != nil || !found {
		return store.Slot{}, err
	}
	return c.SlotOf(row), nil
}

// readAhead begins to read the slots of the write's rows, except that of the row that was read already. The
// function that it returns waits for them. It leaves out those that could not be read, and those of other records, which
// may pass to this one before the write.
func (c *Catalog) readAhead(ctx context.Context, w wal.Write, row storage.Entity) func() map[string]store.Slot {
	slots := make([]*store.Slot, len(w.Partitions))
	var g task.Group
	for i, p := range w.Partitions {
		g.Go(func() error {
			s := c.SlotOf(row)
			if row.Key != (key.Key{Partition: p, Row: w.Row}) {
				var err error
				if s, err = c.readSlot(ctx, p, w); err != nil {
					return err
				}
			}
			if !s.Exists || s.Identity == w.Identity {
				slots[i] = &s
			}
			return nil
		})
	}
	return func() map[string]store.Slot {
		_ = g.Wait() // what is missing is read again
		known := map[string]store.Slot{}
		for i, s := range slots {
			if s != nil {
				known[w.Partitions[i]] = *s
			}
		}
		return known
	}
}

// rowOps returns the operations that the writes need in a partition whose rows are in the
// state of slots. The error is a collision.
func rowOps(partition string, writes []wal.Write, slots []store.Slot, r record.Record) (ops []storage.Op, err error) {
	for i, w := range writes {
		row := store.IndexRow(w, partition, r)
		switch wal.Decide(slots[i].IndexRow, w) {
		case wal.Create:
			ops = append(ops, storage.Op{Kind: storage.Insert, Entity: row})
		case wal.Overwrite:
			ops = append(ops, storage.Op{Kind: storage.Replace, Entity: row, IfMatch: slots[i].ETag})
		case wal.Collide:
			return nil, &collision{partition, w.Row}
		}
	}
	return ops, nil
}

// free checks that no other record has the write's row key. Another record may still take it
// before the rows are written; that two meet is rare, and at that moment rarer still.
func (c *Catalog) free(ctx context.Context, w wal.Write) error {
	all, err := c.Copies(ctx, w)
	for _, x := range all {
		if err == nil && wal.Decide(x.Slot.IndexRow, w) == wal.Collide {
			err = c.inTheWay(&collision{x.At.Partition, w.Row})
		}
	}
	return err
}

// collision means that another record has the row key by chance. Only eight hex digits of a
// hash tell records with the same sort value apart.
type collision struct{ partition, row string }

func (e *collision) Error() string {
	return fmt.Sprintf("another record has the row key %q in %q", e.row, e.partition)
}
