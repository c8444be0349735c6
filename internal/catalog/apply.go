package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// carryOut applies an entry that was just committed. What remains to be done to the
// log is left to the background.
func (c *Catalog) carryOut(ctx context.Context, e entry) error {
	sure, err := c.apply(ctx, e, e.Writes)
	if errors.As(err, new(*collision)) {
		return c.redo(ctx, e) // perhaps we are late, and the key's new owner is right
	}
	if err != nil {
		return problem.Busyf("", "the write is recorded and will be completed, but is not yet seen under every key; sending it again does no harm").Because(err)
	}
	c.later(ctx, func(ctx context.Context) error { return c.finish(ctx, e, sure) })
	return nil
}

// withdraw takes back an insertion that can't be applied, in one transaction with its
// entry: whoever changes the record or completes the insertion first, is right.
func (c *Catalog) withdraw(ctx context.Context, e entry, cause error) error {
	w := e.Writes[0]
	h, err := c.readHead(ctx, w.First, w.Identity)
	if err != nil {
		return err
	}
	if h != nil && h.Entry == e.id {
		left, _ := wal.Removal(h.state())
		undo := c.newEntry(wal.Undo, w.First, e.record, h.state())
		undo.Writes = []wal.Write{left}
		raced, err := c.commit(ctx, undo, []change{{h, left, ""}}, deletion(e))
		if err != nil {
			return err
		}
		if !raced {
			if err := c.carryOut(ctx, undo); err != nil {
				return err
			}
			return c.inTheWay(cause)
		}
	}
	if there, err := c.recorded(ctx, e); there || err != nil {
		return err
	}
	return c.inTheWay(cause) // another has withdrawn it
}

// deletion removes an entry from the log.
func deletion(e entry) storage.Op {
	return storage.Op{Kind: storage.Delete, Entity: storage.Entity{Key: key.Key{Partition: e.shard, Row: entryPrefix + e.id}}}
}

// complete applies an entry of another writer, if it is still to be done.
func (c *Catalog) complete(ctx context.Context, shard, id string) error {
	row, found, err := c.Log.Get(ctx, key.Key{Partition: shard, Row: entryPrefix + id})
	if err != nil || !found {
		return err
	}
	e, err := entryOf(row)
	if err != nil {
		return err
	}
	return c.redo(ctx, e)
}

// redo applies an entry again, whoever committed it and whenever. An insertion that
// can't be applied since its row key is taken, is undone; that is a Conflict.
func (c *Catalog) redo(ctx context.Context, e entry) error {
	writes, _, err := c.current(ctx, e)
	if err != nil {
		return err
	}
	_, err = c.apply(ctx, e, writes)
	if errors.As(err, new(*collision)) && e.Kind == wal.Insert {
		return c.withdraw(ctx, e, err)
	}
	if err != nil {
		return err
	}
	return c.finish(ctx, e, true) // what is in doubt, current has noted
}

// current returns the writes of an entry that are the newest of their identities, for
// another than the entry's writer to carry them out: their heads then say that this may
// be on its way. cleared are those of identities that are gone, and that the log has
// forgotten.
func (c *Catalog) current(ctx context.Context, e entry) (writes, cleared []wal.Write, err error) {
	for _, w := range e.Writes {
		h, err := c.readHead(ctx, w.First, w.Identity)
		for err == nil && h != nil && h.Entry == e.id && h.Sure {
			if err = c.Log.Write(ctx, doubt(e.shard, w, h.etag)); err == nil {
				break
			}
			if overtaken(err) {
				h, err = c.readHead(ctx, w.First, w.Identity)
			}
		}
		switch {
		case err != nil:
			return nil, nil, err
		case h != nil && h.Entry == e.id:
			writes = append(writes, w)
		case h == nil && w.Gone:
			cleared = append(cleared, w)
		}
	}
	return writes, cleared, nil
}

// finish moves an applied entry to the changes. Rows that say "gone" are noted for
// being cleared away. Unless it is sure that none of the requests that applied it can be
// carried out again, the heads say so.
func (c *Catalog) finish(ctx context.Context, e entry, sure bool) error {
	ops := []storage.Op{
		deletion(e),
	}
	if e.Kind != wal.Undo {
		ops = append(ops, storage.Op{Kind: storage.Insert, Entity: entryRow(changePrefix, e)})
	}
	if gone := goneOf(e.Writes); len(gone) > 0 {
		what := storage.StringProperty("Writes", encode(gone))
		ops = append(ops, c.clearLater(e, what), storage.Op{Kind: storage.Replace, Entity: storage.Entity{
			Key: key.Key{Partition: e.shard, Row: gonePrefix + e.id}, Properties: []storage.Property{what},
		}})
	}
	if !sure {
		for _, w := range e.Writes {
			ops = append(ops, doubt(e.shard, w, "*"))
		}
	}
	err := c.Log.Write(ctx, ops...)
	if storage.Conflict(err) { // the change is there, so this is an entry that was set back
		err = c.Log.Write(ctx, ops[0])
	}
	if overtaken(err) { // another has done it
		return nil
	}
	return err
}

func goneOf(writes []wal.Write) []wal.Write {
	return slices.DeleteFunc(slices.Clone(writes), func(w wal.Write) bool { return !w.Gone })
}

// clearLater notes that something is to be cleared away.
func (c *Catalog) clearLater(e entry, what storage.Property) storage.Op {
	return storage.Op{Kind: storage.Replace, Entity: storage.Entity{
		Key:        key.Key{Partition: e.shard, Row: clearPrefix + key.Inverted(c.Now().Add(clearAfter)) + "|" + e.id},
		Properties: []storage.Property{what},
	}}
}

// apply writes the index rows of an entry's writes, all partitions at once. It
// writes what it can; the error is one of those that kept it from the rest. sure
// reports that every request was answered at the first try, so that none can be carried
// out later.
func (c *Catalog) apply(ctx context.Context, e entry, writes []wal.Write) (sure bool, err error) {
	partitions := map[string][]wal.Write{}
	for _, w := range writes {
		for _, p := range w.Partitions {
			partitions[p] = append(partitions[p], w)
		}
	}
	for p, in := range partitions {
		if len(in) == 2 && in[0].Row == in[1].Row {
			partitions[p] = in[1:] // the row changes hands, see wal.Write.Instead
		}
	}
	ctx, cancel := context.WithTimeout(ctx, applyTime)
	defer cancel()
	var g task.Group
	var repeated atomic.Bool
	for p, writes := range partitions {
		g.Go(func() error {
			if err := c.applyTo(ctx, p, writes, e.record, &repeated); err != nil {
				return fmt.Errorf("catalog %s, index partition %q: %w", c.Name, p, err)
			}
			return nil
		})
	}
	err = g.Wait()
	return !repeated.Load(), err
}

// applyTo writes the rows of one partition in one transaction, so that a page never
// shows a record twice or not at all while it moves. repeated is set if the transaction
// was sent more than once.
func (c *Catalog) applyTo(ctx context.Context, partition string, writes []wal.Write, r record.Record, repeated *atomic.Bool) error {
	slots := make([]slot, len(writes))
	read := func(i int) error {
		row, found, err := c.Index.Get(ctx, key.Key{Partition: partition, Row: writes[i].Row})
		slots[i] = slot{}
		if found {
			slots[i] = c.slotOf(row)
		}
		return err
	}
	for i, w := range writes {
		if w.Fresh {
			continue // most likely there is no row; if there is, we are told
		}
		if err := read(i); err != nil {
			return err
		}
	}
	for range maxRaces {
		var ops []storage.Op
		for i, w := range writes {
			row := indexRow(w, partition, r)
			switch wal.Decide(slots[i].IndexRow, w) {
			case wal.Create:
				ops = append(ops, storage.Op{Kind: storage.Insert, Entity: row})
			case wal.Overwrite:
				ops = append(ops, storage.Op{Kind: storage.Replace, Entity: row, IfMatch: slots[i].etag})
			case wal.Collide:
				return &collision{partition, w.Row}
			}
		}
		if len(ops) == 0 {
			return nil
		}
		var tries storage.Counter
		err := c.Index.Write(tries.In(ctx), ops...)
		if tries.Requests() > 1 {
			repeated.Store(true)
		}
		if err == nil || !overtaken(err) {
			return err
		}
		for i := range writes {
			if err := read(i); err != nil {
				return err
			}
		}
	}
	return c.busy()
}

// collision means that another record has the row key, by chance: eight hex digits
// of a hash are all that tells records with the same sort value apart.
type collision struct{ partition, row string }

func (e *collision) Error() string {
	return fmt.Sprintf("the row key %q is taken by another record in %q", e.row, e.partition)
}
