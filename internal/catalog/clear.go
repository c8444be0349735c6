package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/store"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/key"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// tombstoneAge is the age at which Maintain checks whether an entry's tombstones are still needed. Readers assume that younger
// tombstones still exist.
const tombstoneAge = time.Minute

// tombstones contains the rows that a deletion has left: index rows, and the head of the deleted identity.
type tombstones struct {
	write wal.Write
	rows  []storage.Entity // read before the head
	head  *store.Head
}

// clearer deletes index rows, heads and notes that are no longer needed. A note is a row of the log that lists rows to delete
// later.
type clearer struct{ *store.Store }

// readTombstones reads the tombstones of a deletion, and older rows of the deleted identity. If the argument `known`
// contains the ETag of a tombstone, the tombstone is not read.
func (cl *clearer) readTombstones(ctx context.Context, w wal.Write, known map[index.PartitionKey]string) (tombstones, error) {
	l := tombstones{write: w}
	for _, partition := range w.Partitions {
		at := w.At(partition)
		if etag := known[partition]; etag != "" {
			l.rows = append(l.rows, storage.Entity{Key: at, ETag: etag})
			continue
		}
		row, found, err := cl.Index.Get(ctx, at)
		if err != nil {
			return l, err
		}
		if s := cl.SlotOf(row); found && s.Identity == w.Identity && s.Version <= w.Version {
			l.rows = append(l.rows, row)
		}
	}
	var err error
	l.head, err = cl.ReadHead(ctx, w.First, w.Identity)
	return l, err
}

// deleteRows deletes the rows that have not changed since they were read.
func (cl *clearer) deleteRows(ctx context.Context, rows []storage.Entity) (unchanged bool, err error) {
	unchanged = true
	for _, row := range rows {
		err := cl.DeleteRow(ctx, row)
		if err != nil && !store.Overtaken(err) {
			return false, err
		}
		unchanged = unchanged && !storage.HasCode(err, "UpdateConditionNotSatisfied")
	}
	return unchanged, nil
}

func notedWrites(note storage.Entity) (writes []wal.Write, err error) {
	if err = store.Decode(note.Get("Writes"), &writes); err != nil {
		err = fmt.Errorf("log row %s: %w", note.Key.Row, err)
	}
	return writes, err
}

// clearTombstones deletes the tombstones that notes list, and then deletes the notes. If an older write may still be under way,
// the tombstones stay. The heads of the deleted records stay for a day.
func (cl *clearer) clearTombstones(ctx context.Context, shard store.Shard, notes []storage.Entity) error {
	if len(notes) == 0 {
		return nil
	}
	left, err := cl.readNoted(ctx, notes)
	if err != nil {
		return err
	}
	pending, err := cl.pendingIdentities(ctx, shard) // read after the heads
	if err != nil {
		return err
	}
	done, err := cl.settle(ctx, notes, left, pending)
	return errors.Join(err, cl.writeNotes(ctx, done))
}

func (cl *clearer) readNoted(ctx context.Context, notes []storage.Entity) ([][]tombstones, error) {
	all := make([][]tombstones, len(notes))
	var g task.Group
	g.SetLimit(store.Parallel)
	for i, note := range notes {
		g.Go(func() error {
			writes, err := notedWrites(note)
			if err != nil {
				return err
			}
			var known map[index.PartitionKey]string
			if text := note.Get("Rows"); text != "" {
				if err := store.Decode(text, &known); err != nil {
					return fmt.Errorf("log row %s: %w", note.Key.Row, err)
				}
			}
			for _, w := range writes {
				l, err := cl.readTombstones(ctx, w, known)
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

// settle deletes the tombstones that are no longer needed. For each note, it returns an operation that deletes the note, unless
// one of the note's tombstones must wait. A note may have a second note, which lists the same rows and is due a day later. In
// that case, the first note's column Later contains the second note's RowKey. If settle has deleted the index rows, and the
// first note lists only one head, settle also returns an operation that changes the second note, so that only the head remains
// to be deleted.
func (cl *clearer) settle(ctx context.Context, notes []storage.Entity, left [][]tombstones, pending func(identity index.IdentityHash) bool) (done [][]storage.Op, err error) {
	settled := make([][]storage.Op, len(notes)) // the operations for each note; nil for a note with a tombstone that must wait, or after an error
	var g task.Group
	g.SetLimit(store.Parallel)
	for i := range notes {
		g.Go(func() error {
			ops := []storage.Op{{Kind: storage.Delete, Row: storage.Row{Key: notes[i].Key}}}
			for _, l := range left[i] {
				switch wal.Settle(l.head.State(), l.write, pending(l.write.Identity)) {
				case wal.Clear:
					all, err := cl.deleteRows(ctx, l.rows)
					if err != nil {
						return err
					}
					if later := notes[i].Get("Later"); all && len(left[i]) == 1 && later != "" {
						ops = append(ops, storage.Op{Kind: storage.Replace, Row: storage.Entity{
							Key:        key.Key{Partition: notes[i].Key.Partition, Row: later},
							Properties: []storage.Property{storage.StringProperty("Writes", notes[i].Get("Writes")), storage.StringProperty("Head", l.head.ETag)},
						}.Row()})
					}
				case wal.Wait:
					return nil
				}
			}
			settled[i] = ops
			return nil
		})
	}
	err = g.Wait()
	return slices.DeleteFunc(settled, func(ops []storage.Op) bool { return ops == nil }), err
}

// writeNotes carries out operations on notes of one shard, in transactions that are as large as possible. If another process
// has already done one of the operations, the transaction fails, and the next run of Maintain does the other operations.
func (cl *clearer) writeNotes(ctx context.Context, all [][]storage.Op) (err error) {
	for some := range slices.Chunk(all, storage.MaxBatchRows/2) {
		if failed := cl.Log.Write(ctx, slices.Concat(some...)...); !store.Overtaken(failed) {
			err = errors.Join(err, failed)
		}
	}
	return err
}

// pendingIdentities returns a function that reports whether an identity has a pending entry in the shard. If an entry cannot be
// read, the function returns true for every identity.
func (cl *clearer) pendingIdentities(ctx context.Context, shard store.Shard) (pending func(identity index.IdentityHash) bool, err error) {
	known, unreadable := map[index.IdentityHash]bool{}, false
	q := shard.Query(store.EntryPrefix)
	q.Select = []string{store.WritesColumn}
	err = cl.Log.All(ctx, q, func(p storage.Page) error {
		for _, row := range p.Entities() {
			var writes []wal.Write
			unreadable = store.Decode(row.Get(store.WritesColumn), &writes) != nil || unreadable
			for _, w := range writes {
				known[w.Identity] = true
			}
		}
		return nil
	})
	return func(identity index.IdentityHash) bool { return unreadable || known[identity] }, err
}

// clearDue deletes the rows that are listed in notes at least a day old.
func (cl *clearer) clearDue(ctx context.Context, shard store.Shard) error {
	due := shard.Query(store.ClearPrefix)
	due.Range.Low = &key.Bound{Key: store.ClearPrefix + key.Inverted(cl.Clock())} // notes before this key are not due yet
	return cl.Log.All(ctx, due, func(p storage.Page) error {
		rows := slices.DeleteFunc(p.Entities(), func(row storage.Entity) bool {
			return p.Date.Sub(row.Timestamp) < clearAfter-time.Minute // by the service's clock, the note is not due: settle has changed the note, or our clock or the writer's clock is wrong
		})
		var g task.Group
		g.SetLimit(store.Parallel)
		one := func(row storage.Entity) {
			g.Go(func() error {
				if err := cl.clearNoted(ctx, row); !store.Overtaken(err) {
					return err
				}
				return nil
			})
		}
		heads := slices.DeleteFunc(slices.Clone(rows), func(row storage.Entity) bool { return row.Get("Head") == "" })
		for some := range slices.Chunk(heads, storage.MaxBatchRows/2) {
			err := cl.clearHeads(ctx, some)
			if storage.Passing(err) {
				return err
			}
			for _, row := range some {
				if err != nil { // these notes were not all cleared in one transaction, for example because a head has changed, or because two notes concern the same head
					one(row)
				}
			}
		}
		for _, row := range rows {
			if row.Get("Head") == "" {
				one(row)
			}
		}
		return g.Wait()
	})
}

// clearHeads deletes heads and the notes that list them, all in one transaction. Each note must list only one head.
func (cl *clearer) clearHeads(ctx context.Context, notes []storage.Entity) error {
	var ops []storage.Op
	for _, note := range notes {
		writes, err := notedWrites(note)
		if err != nil {
			return err
		}
		ops = append(ops, storage.Op{Kind: storage.Delete, Row: storage.Row{Key: note.Key}}, headDeletion(writes[0], note.Get("Head")))
	}
	return cl.Log.Write(ctx, ops...)
}

// headDeletion returns the operation that deletes the head of a write's identity. The operation fails if the head has changed.
func headDeletion(w wal.Write, etag string) storage.Op {
	return storage.Op{Kind: storage.Delete, IfMatch: etag, Row: storage.Row{Key: store.HeadKey(w.First, w.Identity)}}
}

// clearNoted deletes the rows that a note lists, and then the note.
func (cl *clearer) clearNoted(ctx context.Context, note storage.Entity) error {
	ops := []storage.Op{{Kind: storage.Delete, Row: storage.Row{Key: note.Key}}}
	writes, err := notedWrites(note)
	if err != nil {
		return err
	}
	for _, w := range writes {
		l, err := cl.readTombstones(ctx, w, nil)
		if err != nil {
			return err
		}
		if l.head != nil && l.head.Version != w.Version {
			continue // the tombstones in these rows belong to a newer write, which has its own note
		}
		if _, err := cl.deleteRows(ctx, l.rows); err != nil {
			return err
		}
		if l.head == nil {
			continue
		}
		// Delete the head last. While the head exists, a process that repeats an older write learns from the head that the write
		// is obsolete.
		ops = append(ops, headDeletion(w, l.head.ETag))
	}
	return cl.Log.Write(ctx, ops...)
}
