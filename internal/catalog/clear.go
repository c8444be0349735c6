package catalog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tablesweep/internal/catalog/store"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/key"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// tombstoneAge is the age at which Maintain checks whether an entry's tombstones are still
// needed. It affects nothing but how often Maintain checks.
const tombstoneAge = time.Minute

// tombstones are the index rows that a deletion has left, and the head of its identity.
type tombstones struct {
	write wal.Write
	rows  []storage.Entity // read before the head
	head  *store.Head
}

// readTombstones reads the tombstones of a deletion, and older rows of its identity.
func (c *Catalog) readTombstones(ctx context.Context, w wal.Write) (tombstones, error) {
	l := tombstones{write: w}
	for _, partition := range w.Partitions {
		row, found, err := c.Index.Get(ctx, key.Key{Partition: partition, Row: w.Row})
		if err != nil {
			return l, err
		}
		if s := c.SlotOf(row); found && s.Identity == w.Identity && s.Version <= w.Version {
			l.rows = append(l.rows, row)
		}
	}
	var err error
	l.head, err = c.ReadHead(ctx, w.First, w.Identity)
	return l, err
}

// deleteRows deletes the rows, unless they have changed since they were read.
func (c *Catalog) deleteRows(ctx context.Context, rows []storage.Entity) error {
	for _, row := range rows {
		if err := c.DeleteRow(ctx, row); err != nil && !store.Overtaken(err) {
			return err
		}
	}
	return nil
}

// notedWrites returns the deletions that a note in the log is about.
func notedWrites(note storage.Entity) (writes []wal.Write, err error) {
	if err = store.Decode(note.Get("Writes"), &writes); err != nil {
		err = fmt.Errorf("row %s of the log: %w", note.Key.Row, err)
	}
	return writes, err
}

// clearTombstones deletes the tombstones that the notes are about, if no older write can
// still be on its way, and then the notes. The heads stay for a day.
func (c *Catalog) clearTombstones(ctx context.Context, shard string, notes []storage.Entity) error {
	if len(notes) == 0 {
		return nil
	}
	left, err := c.readNoted(ctx, notes)
	if err != nil {
		return err
	}
	pending, err := c.pendingIdentities(ctx, shard) // after the heads
	if err != nil {
		return err
	}
	done, err := c.settle(ctx, notes, left, pending)
	return errors.Join(err, c.deleteNotes(ctx, done))
}

// readNoted reads the tombstones that each of the notes is about.
func (c *Catalog) readNoted(ctx context.Context, notes []storage.Entity) ([][]tombstones, error) {
	all := make([][]tombstones, len(notes))
	var g task.Group
	g.SetLimit(store.Parallel)
	for i, note := range notes {
		g.Go(func() error {
			writes, err := notedWrites(note)
			if err != nil {
				return err
			}
			for _, w := range writes {
				l, err := c.readTombstones(ctx, w)
				if err != nil {
					return err
				}
				all[i] = append(all[i], l)
			}
			return nil
		})
	}
	return all, g.Wait()
}

// settle deletes the tombstones that are no longer needed. It returns the notes that nothing
// waits for.
func (c *Catalog) settle(ctx context.Context, notes []storage.Entity, left [][]tombstones, pending func(identity string) bool) (done []storage.Entity, err error) {
	settled := make([]bool, len(notes)) // false, too, after an error
	var g task.Group
	g.SetLimit(store.Parallel)
	for i := range notes {
		g.Go(func() error {
			keep := false
			for _, l := range left[i] {
				switch wal.Settle(l.head.State(), l.write, pending(l.write.Identity)) {
				case wal.Clear:
					if err := c.deleteRows(ctx, l.rows); err != nil {
						return err
					}
				case wal.Wait:
					keep = true
				}
			}
			settled[i] = !keep
			return nil
		})
	}
	err = g.Wait()
	for i, note := range notes {
		if settled[i] {
			done = append(done, note)
		}
	}
	return done, err
}

// deleteNotes deletes notes, unless another process does: then the next run meets the rest.
func (c *Catalog) deleteNotes(ctx context.Context, notes []storage.Entity) (err error) {
	batch := c.Log.Batch()
	write := func() {
		if failed := batch.Do(ctx); !store.Overtaken(failed) {
			err = errors.Join(err, failed)
		}
		batch = c.Log.Batch()
	}
	for _, note := range notes {
		op := storage.Op{Kind: storage.Delete, Entity: storage.Entity{Key: note.Key}}
		if !batch.Add(op) {
			write()
			batch.Add(op)
		}
	}
	write()
	return err
}

// pendingIdentities reports which identities have pending entries in the shard. If one
// can't be read, pending reports true for every identity.
func (c *Catalog) pendingIdentities(ctx context.Context, shard string) (pending func(identity string) bool, err error) {
	known, unreadable := map[string]bool{}, false
	q := store.PrefixQuery(shard, store.EntryPrefix)
	q.Select = []string{store.WritesColumn}
	err = c.Log.All(ctx, q, func(p storage.Page) error {
		for _, row := range p.Entities {
			var writes []wal.Write
			unreadable = store.Decode(row.Get(store.WritesColumn), &writes) != nil || unreadable
			for _, w := range writes {
				known[w.Identity] = true
			}
		}
		return nil
	})
	return func(identity string) bool { return unreadable || known[identity] }, err
}

// clearDue deletes what is noted for deletion after a day, once the day is over.
func (c *Catalog) clearDue(ctx context.Context, shard string) error {
	due := store.PrefixQuery(shard, store.ClearPrefix)
	due.Range.Low = &key.Bound{Key: store.ClearPrefix + key.Inverted(c.now())} // later ones sort ahead
	return c.Log.All(ctx, due, func(p storage.Page) error {
		var g task.Group
		g.SetLimit(store.Parallel)
		for _, row := range p.Entities {
			if p.Date.Sub(row.Timestamp) < clearAfter-time.Minute {
				continue // our clock or the writer's is wrong
			}
			g.Go(func() error {
				if err := c.clearNoted(ctx, row); !store.Overtaken(err) {
					return err
				}
				return nil
			})
		}
		return g.Wait()
	})
}

// clearNoted deletes what a note is about, and the note.
func (c *Catalog) clearNoted(ctx context.Context, note storage.Entity) error {
	ops := []storage.Op{{Kind: storage.Delete, Entity: storage.Entity{Key: note.Key}}}
	if row := note.Get("Row"); row != "" {
		err := c.Log.Write(ctx, append(ops, storage.Op{Kind: storage.Delete, Entity: storage.Entity{Key: key.Key{Partition: note.Key.Partition, Row: row}}})...)
		if store.Overtaken(err) { // the row is gone, or both are
			err = c.Log.Write(ctx, ops...)
		}
		return err
	}
	writes, err := notedWrites(note)
	if err != nil {
		return err
	}
	for _, w := range writes {
		l, err := c.readTombstones(ctx, w)
		if err != nil {
			return err
		}
		if l.head != nil && l.head.Version != w.Version {
			continue // a newer write has its own rows and notes
		}
		if err := c.deleteRows(ctx, l.rows); err != nil {
			return err
		}
		if l.head == nil {
			continue
		}
		// Last: whoever redoes an older write learns from the head that it is over.
		ops = append(ops, storage.Op{Kind: storage.Delete, IfMatch: l.head.ETag, Entity: storage.Entity{Key: store.HeadKey(note.Key.Partition, w.First, w.Identity)}})
	}
	return c.Log.Write(ctx, ops...)
}

// clearForgotten deletes the tombstones of a deletion whose identity has no head any
// more.
func (c *Catalog) clearForgotten(ctx context.Context, w wal.Write) error {
	l, err := c.readTombstones(ctx, w)
	if err != nil || l.head != nil {
		return err
	}
	return c.deleteRows(ctx, l.rows)
}
