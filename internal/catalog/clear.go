package catalog

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/key"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// goneAfter is the age of an applied entry at which Maintain looks whether the rows by
// which it says "gone" are still needed. It decides nothing but how often it has to look.
const goneAfter = time.Minute

// left is what a write has left of an identity that is gone.
type left struct {
	write wal.Write
	rows  []storage.Entity // of the index, as they were read before the head
	head  *head
}

// leftBy reads what a write has left.
func (c *Catalog) leftBy(ctx context.Context, w wal.Write) (left, error) {
	l := left{write: w}
	for _, partition := range w.Partitions {
		row, found, err := c.Index.Get(ctx, key.Key{Partition: partition, Row: w.Row})
		if err != nil {
			return l, err
		}
		if s := c.slotOf(row); found && s.Identity == w.Identity && s.Version <= w.Version {
			l.rows = append(l.rows, row)
		}
	}
	var err error
	l.head, err = c.readHead(ctx, w.First, w.Identity)
	return l, err
}

// deleteRows deletes the rows, unless they have changed since they were read.
func (c *Catalog) deleteRows(ctx context.Context, rows []storage.Entity) error {
	for _, row := range rows {
		if err := c.deleteRow(ctx, row); err != nil && !overtaken(err) {
			return err
		}
	}
	return nil
}

func noted(note storage.Entity) (writes []wal.Write, err error) {
	if err = json.Unmarshal([]byte(note.Get("Writes")), &writes); err != nil {
		err = fmt.Errorf("row %s of the log: %w", note.Key.Row, err)
	}
	return writes, err
}

// clearGone deletes the index rows that applied entries have left to say "gone", if no
// writer can need them any more, and the notes of these entries. The heads stay for a
// day: the identity's next life has greater versions than this one, whatever the clocks
// say, and an insertion that is carried out late finds that it is too late.
func (c *Catalog) clearGone(ctx context.Context, shard string, notes []storage.Entity) error {
	if len(notes) == 0 {
		return nil
	}
	all := make([][]left, len(notes))
	var g task.Group
	g.SetLimit(parallel)
	for i, note := range notes {
		g.Go(func() error {
			writes, err := noted(note)
			for _, w := range writes {
				l, leftErr := c.leftBy(ctx, w)
				if err = leftErr; err != nil {
					break
				}
				all[i] = append(all[i], l)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	pending, err := c.pendingIdentities(ctx, shard) // after the heads
	if err != nil {
		return err
	}
	done := make([]bool, len(notes))
	for i := range notes {
		g.Go(func() error {
			keep := false
			for _, l := range all[i] {
				switch wal.Settle(l.head.state(), l.write, pending(l.write.Identity)) {
				case wal.Clear:
					if err := c.deleteRows(ctx, l.rows); err != nil {
						return err
					}
				case wal.Wait:
					keep = true
				}
			}
			done[i] = !keep
			return nil
		})
	}
	err = g.Wait()
	batch := c.Log.Batch()
	for i, note := range notes {
		if !done[i] {
			continue
		}
		op := storage.Op{Kind: storage.Delete, Entity: storage.Entity{Key: note.Key}}
		if !batch.Add(op) {
			err = firstOf(err, batch.Do(ctx))
			batch = c.Log.Batch()
			batch.Add(op)
		}
	}
	return firstOf(err, batch.Do(ctx))
}

// firstOf returns the first error. Notes that another has deleted are none: the others
// are met again.
func firstOf(err, deleting error) error {
	if err == nil && !overtaken(deleting) {
		return deleting
	}
	return err
}

// pendingIdentities reports which identities the shard's entries write: all of them, if
// an entry can't be read.
func (c *Catalog) pendingIdentities(ctx context.Context, shard string) (pending func(identity string) bool, err error) {
	known, unreadable := map[string]bool{}, false
	q := prefixQuery(shard, entryPrefix)
	q.Select = []string{writesColumn}
	err = c.Log.All(ctx, q, func(p storage.Page) error {
		for _, row := range p.Entities {
			var writes []wal.Write
			unreadable = json.Unmarshal([]byte(row.Get(writesColumn)), &writes) != nil || unreadable
			for _, w := range writes {
				known[w.Identity] = true
			}
		}
		return nil
	})
	return func(identity string) bool { return unreadable || known[identity] }, err
}

// clearDue removes what was noted for being cleared away after a day.
func (c *Catalog) clearDue(ctx context.Context, shard string) error {
	due := prefixQuery(shard, clearPrefix)
	due.Range.Low = &key.Bound{Key: clearPrefix + key.Inverted(c.Now())} // what is due later stands ahead
	return c.Log.All(ctx, due, func(p storage.Page) error {
		var g task.Group
		g.SetLimit(parallel)
		for _, row := range p.Entities {
			if p.Date.Sub(row.Timestamp) < clearAfter-time.Minute {
				continue // our clock, or that of the writer, is wrong
			}
			g.Go(func() error {
				if err := c.clearNoted(ctx, row); !overtaken(err) {
					return err
				}
				return nil
			})
		}
		return g.Wait()
	})
}

func (c *Catalog) clearNoted(ctx context.Context, note storage.Entity) error {
	ops := []storage.Op{{Kind: storage.Delete, Entity: storage.Entity{Key: note.Key}}}
	if row := note.Get("Row"); row != "" {
		err := c.Log.Write(ctx, append(ops, storage.Op{Kind: storage.Delete, Entity: storage.Entity{Key: key.Key{Partition: note.Key.Partition, Row: row}}})...)
		if overtaken(err) { // the row is gone, or both are
			err = c.Log.Write(ctx, ops...)
		}
		return err
	}
	writes, err := noted(note)
	if err != nil {
		return err
	}
	for _, w := range writes {
		l, err := c.leftBy(ctx, w)
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
		// Last, since the head is what tells who redoes an older write that it is over.
		ops = append(ops, storage.Op{Kind: storage.Delete, IfMatch: l.head.etag, Entity: storage.Entity{Key: headKey(note.Key.Partition, w.First, w.Identity)}})
	}
	return c.Log.Write(ctx, ops...)
}

// clearForgotten deletes what a write has left of an identity that is gone, and that the
// log has forgotten.
func (c *Catalog) clearForgotten(ctx context.Context, w wal.Write) error {
	l, err := c.leftBy(ctx, w)
	if err != nil || l.head != nil {
		return err
	}
	return c.deleteRows(ctx, l.rows)
}
