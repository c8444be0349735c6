package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
	"tablesweep/internal/ticks"
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
	if err := c.writable(ctx); err != nil {
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
	if err := c.writable(ctx); err != nil {
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
	g, ctx := errgroup.WithContext(ctx)
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

// carryOut applies an entry that was just committed. What remains to be done to the
// log is left to the background.
func (c *Catalog) carryOut(ctx context.Context, e entry) error {
	err := c.apply(ctx, e, e.Writes)
	if errors.As(err, new(*collision)) {
		return c.redo(ctx, e) // perhaps we are late, and the key's new owner is right
	}
	if err != nil {
		return &problem.Error{Kind: problem.Busy, Detail: "the write is recorded and will be completed, but is not yet seen under every key; sending it again does no harm", Err: err}
	}
	c.later(ctx, func(ctx context.Context) {
		if err := c.finish(ctx, e); err != nil {
			zerolog.Ctx(ctx).Warn().Err(err).Str("catalog", c.Name).Msg("entry left for recovery")
		}
	})
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
	err = c.apply(ctx, e, writes)
	if errors.As(err, new(*collision)) && e.Kind == wal.Insert {
		return c.withdraw(ctx, e, err)
	}
	if err != nil {
		return err
	}
	return c.finish(ctx, e)
}

// current returns the writes of an entry that are the newest of their identities.
// cleared are those of identities that are gone, and that the log has forgotten.
func (c *Catalog) current(ctx context.Context, e entry) (writes, cleared []wal.Write, err error) {
	for _, w := range e.Writes {
		h, err := c.readHead(ctx, w.First, w.Identity)
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
// being cleared away.
func (c *Catalog) finish(ctx context.Context, e entry) error {
	ops := []storage.Op{
		deletion(e),
	}
	if e.Kind != wal.Undo {
		ops = append(ops, storage.Op{Kind: storage.Insert, Entity: entryRow(changePrefix, e)})
	}
	if gone := goneOf(e.Writes); len(gone) > 0 {
		ops = append(ops, c.clearLater(e, storage.StringProperty("Writes", encode(gone))))
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
		Key:        key.Key{Partition: e.shard, Row: clearPrefix + ticks.Inverted(c.Now().Add(clearAfter)) + "|" + e.id},
		Properties: []storage.Property{what},
	}}
}

// apply writes the index rows of an entry's writes, all partitions at once. It
// writes what it can; the error is one of those that kept it from the rest.
func (c *Catalog) apply(ctx context.Context, e entry, writes []wal.Write) error {
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
	var g errgroup.Group
	for p, writes := range partitions {
		g.Go(func() error {
			if err := c.applyTo(ctx, p, writes, e.record); err != nil {
				return fmt.Errorf("catalog %s, index partition %q: %w", c.Name, p, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// applyTo writes the rows of one partition in one transaction, so that a page never
// shows a record twice or not at all while it moves.
func (c *Catalog) applyTo(ctx context.Context, partition string, writes []wal.Write, r record.Record) error {
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
			switch wal.Decide(slots[i].Row, w) {
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
		err := c.Index.Write(ctx, ops...)
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
