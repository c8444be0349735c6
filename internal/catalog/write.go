package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// Insert adds a record. It reports false if the record was there already with the
// same contents; a record with the same identity and other contents is a
// Conflict. once, if not "", is the caller's Idempotency-Key: for a day, an insertion
// with the same key and record repeats the first one's answer, whatever has become of
// the record meanwhile.
//
// An error may mean that the record was committed and is not yet found by all its
// keys. Inserting it again then completes it, and so does Maintain.
func (c *Catalog) Insert(ctx context.Context, r record.Record, once string) (bool, error) {
	if err := c.Writable(ctx); err != nil {
		return false, err
	}
	return c.insert(ctx, r, once)
}

func (c *Catalog) insert(ctx context.Context, r record.Record, once string) (bool, error) {
	id, err := c.identify(r)
	if err != nil {
		return false, err
	}
	content := r.Hash()
	var h *head
	for range maxRaces {
		w, verdict := wal.Insertion(h.state(), writeFor(id), content, c.Now())
		switch verdict {
		case wal.Same:
			return false, c.complete(ctx, shardOf(w.First), h.Entry)
		case wal.Taken:
			return false, c.taken(id.Row)
		}
		e := c.newEntry(wal.Insert, w.First, r, h.state())
		e.Writes = []wal.Write{w}
		raced, err := c.commit(ctx, e, []change{{h, w, content}}, c.onceOps(e, once, content)...)
		if err != nil {
			return false, err
		}
		if !raced {
			err := c.carryOut(ctx, e)
			return err == nil, err
		}
		if once != "" {
			switch used, err := c.used(ctx, e.shard, once, content); {
			case err != nil:
				return false, err
			case used != "":
				return true, c.complete(ctx, e.shard, used)
			}
		}
		if h, err = c.readHead(ctx, w.First, w.Identity); err != nil {
			return false, err
		}
	}
	return false, c.busy()
}

// Replace puts the record in the place of another one with the same first index
// value: of the one that selector finds, which must be one only; with a nil selector, of
// the one that has the same index and sort values or, if there's none, of the only
// one with that first index value. It reports false if the contents were the same
// already.
func (c *Catalog) Replace(ctx context.Context, r record.Record, selector *Query) (bool, error) {
	if err := c.Writable(ctx); err != nil {
		return false, err
	}
	id, err := c.identify(r)
	if err != nil {
		return false, err
	}
	var selected *wal.Write
	if selector != nil {
		selected, err = c.selectOne(ctx, *selector)
		if err != nil && problem.Of(err).Kind == problem.NotFound {
			// Perhaps a first try, whose answer was lost, has changed what it is found by.
			h, headErr := c.readHead(ctx, id.First(), id.Hash())
			if headErr == nil && h != nil && h.Content == r.Hash() {
				return false, c.complete(ctx, shardOf(h.First), h.Entry)
			}
		}
		if err != nil {
			return false, err
		}
		if selected.First != id.First() {
			return false, problem.Invalidf(c.Schema.Keys[0].Field, "is the first index key, which a record keeps for life: delete the record and insert the new one")
		}
	}
	for range maxRaces {
		old, err := c.replaced(ctx, writeFor(id), selected)
		if err != nil {
			return false, err
		}
		committed, raced, err := c.replace(ctx, old, id.First(), writeFor(id), r)
		if err != nil || !raced {
			return committed, err
		}
	}
	return false, c.busy()
}

// replaced returns the head of the record that w is to replace.
func (c *Catalog) replaced(ctx context.Context, w wal.Write, selected *wal.Write) (*head, error) {
	if selected != nil {
		return c.readHead(ctx, selected.First, selected.Identity)
	}
	h, err := c.readHead(ctx, w.First, w.Identity)
	if err != nil || h != nil && !h.Gone {
		return h, err
	}
	live, err := c.liveHeads(ctx, w.First)
	switch {
	case err != nil:
		return nil, err
	case len(live) > 1:
		return nil, &problem.Error{Kind: problem.Conflict, Detail: fmt.Sprintf("several records have this %s, and none of them has the same other keys: say in the query string which one to replace", c.Schema.Keys[0].Field)}
	case len(live) == 0:
		return nil, nil
	}
	return live[0], nil
}

// replace makes one try to put the record r, whose rows w describes, in the place of
// old's.
func (c *Catalog) replace(ctx context.Context, old *head, first string, w wal.Write, r record.Record) (committed, raced bool, err error) {
	var target *head
	if old != nil && old.Identity != w.Identity {
		if target, err = c.readHead(ctx, first, w.Identity); err != nil {
			return false, false, err
		}
	}
	content := r.Hash()
	writes, verdict := wal.Replacement(old.state(), target.state(), w, content, c.Now())
	switch verdict {
	case wal.Same:
		return false, false, c.complete(ctx, shardOf(first), old.Entry)
	case wal.Absent:
		return false, false, &problem.Error{Kind: problem.NotFound, Detail: "there is no such record to replace: insert it"}
	case wal.Taken:
		return false, false, c.taken(w.Row)
	}
	e := c.newEntry(wal.Replace, first, r, old.state(), target.state())
	e.Writes = writes
	changes := []change{{old, writes[0], content}}
	if len(writes) == 2 {
		if err := c.free(ctx, writes[1]); err != nil {
			return false, false, err
		}
		changes = []change{{old, writes[0], ""}, {target, writes[1], content}}
	}
	if raced, err := c.commit(ctx, e, changes); err != nil || raced {
		return false, raced, err
	}
	return true, false, c.carryOut(ctx, e)
}

// free checks that no other record has the write's rows. Another one may take them
// before they are written; but that two meet is rare, and this rarer still.
func (c *Catalog) free(ctx context.Context, w wal.Write) error {
	g, ctx := task.WithContext(ctx)
	for _, p := range w.Partitions {
		g.Go(func() error {
			row, found, err := c.Index.Get(ctx, key.Key{Partition: p, Row: w.Row})
			if err == nil && found && wal.Decide(c.slotOf(row).Row, w) == wal.Collide {
				err = c.inTheWay(&collision{p, w.Row})
			}
			return err
		})
	}
	return g.Wait()
}

func (c *Catalog) inTheWay(cause error) error {
	return &problem.Error{Kind: problem.Conflict, Field: c.Schema.Sort.Field, Detail: "the record was not written: change this value a little, or that of the record in its way", Err: cause}
}

// remove deletes the record r, whose identity w names. It reports false if the
// record is gone already.
func (c *Catalog) remove(ctx context.Context, first, identity string, r record.Record) (bool, error) {
	for range maxRaces {
		h, err := c.readHead(ctx, first, identity)
		if err != nil {
			return false, err
		}
		w, verdict := wal.Removal(h.state())
		if verdict == wal.Absent {
			if h == nil {
				return false, &problem.Error{Kind: problem.Conflict, Detail: "the catalog's log does not know the record: enter it there by: handler catalog check --repair"}
			}
			return false, c.complete(ctx, shardOf(first), h.Entry)
		}
		e := c.newEntry(wal.Delete, first, r, h.state())
		e.Writes = []wal.Write{w}
		raced, err := c.commit(ctx, e, []change{{h, w, ""}})
		if err != nil {
			return false, err
		}
		if !raced {
			return true, c.carryOut(ctx, e)
		}
	}
	return false, c.busy()
}

func (c *Catalog) taken(row string) error {
	return &problem.Error{Kind: problem.Conflict, Detail: fmt.Sprintf("a record with the same index values and row key (%s) is there with other contents: replace it instead of inserting it", row)}
}

func (c *Catalog) busy() error {
	return &problem.Error{Kind: problem.Busy, Detail: "others keep changing this record; try again"}
}

// change is a head's change: from what it was when it was read, nil for none.
type change struct {
	from    *head
	to      wal.Write
	content string
}

// commit records the entry and changes the heads, all or nothing. raced is true if
// nothing was done because a head is no longer what it was.
func (c *Catalog) commit(ctx context.Context, e entry, changes []change, more ...storage.Op) (raced bool, err error) {
	ops := []storage.Op{{Kind: storage.Insert, Entity: entryRow(entryPrefix, e)}}
	for _, ch := range changes {
		op := storage.Op{Kind: storage.Insert, Entity: headRow(e.shard, ch.to, e.id, ch.content)}
		if ch.from != nil {
			op.Kind, op.IfMatch = storage.Replace, ch.from.etag
		}
		ops = append(ops, op)
	}
	committing, cancel := context.WithTimeout(ctx, commitTime)
	defer cancel()
	err = c.Log.Write(committing, append(ops, more...)...)
	switch {
	case err == nil:
		return false, nil
	case overtaken(err):
		// Perhaps by a first try of this request, whose answer was lost.
		ours, err := c.recorded(ctx, e)
		return !ours, err
	case storage.HasCode(err, "EntityTooLarge", "PropertyValueTooLarge", "TooManyProperties", "RequestBodyTooLarge"):
		return false, &problem.Error{Kind: problem.TooLarge, Detail: "the record is too large for a row: shorten it", Err: err}
	}
	return false, fmt.Errorf("catalog %s: record the write: %w", c.Name, err)
}

// recorded reports whether the entry is in the log or among the changes. It never
// leaves one without being in the other.
func (c *Catalog) recorded(ctx context.Context, e entry) (bool, error) {
	for _, prefix := range []string{entryPrefix, changePrefix} {
		if _, found, err := c.Log.Get(ctx, key.Key{Partition: e.shard, Row: prefix + e.id}); found || err != nil {
			return found, err
		}
	}
	return false, nil
}

// overtaken reports whether err says that a row is no longer what it was when it was read.
func overtaken(err error) bool {
	return storage.Conflict(err) || storage.HasCode(err, "UpdateConditionNotSatisfied", "ResourceNotFound", "EntityNotFound")
}

// onceOps records the use of an idempotency key.
func (c *Catalog) onceOps(e entry, once, content string) []storage.Op {
	if once == "" {
		return nil
	}
	row := onceKey(e.shard, once)
	return []storage.Op{
		{Kind: storage.Insert, Entity: storage.Entity{Key: row, Properties: []storage.Property{
			storage.StringProperty("Entry", e.id), storage.StringProperty("Content", content),
		}}},
		c.clearLater(e, storage.StringProperty("Row", row.Row)),
	}
}

func onceKey(shard, once string) key.Key {
	sum := sha256.Sum256([]byte(once))
	return key.Key{Partition: shard, Row: oncePrefix + hex.EncodeToString(sum[:])}
}

// used returns the entry that an idempotency key was used for, "" if for none.
func (c *Catalog) used(ctx context.Context, shard, once, content string) (string, error) {
	row, found, err := c.Log.Get(ctx, onceKey(shard, once))
	if err != nil || !found {
		return "", err
	}
	if row.Get("Content") != content {
		return "", &problem.Error{Kind: problem.Conflict, Field: "Idempotency-Key", Detail: "was used for another record: take a new key for each record"}
	}
	id := row.Get("Entry")
	there, err := c.recorded(ctx, entry{id: id, shard: shard})
	if err == nil && !there {
		err = &problem.Error{Kind: problem.Conflict, Field: "Idempotency-Key", Detail: "was used for this record when another one was in its way: change the record, and take a new key"}
	}
	return id, err
}
