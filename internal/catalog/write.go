package catalog

import (
	"context"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
	"tablesweep/internal/task"
)

// Outcome is what a write did.
type Outcome string

// The outcomes.
const (
	Created   Outcome = "created"
	Replaced  Outcome = "replaced"
	Unchanged Outcome = "unchanged" // the record was there already with the same contents
)

// Written is what a write did, and the record that is there now.
type Written struct {
	Outcome
	Meta
	Record record.Record
}

// An error of the following writes may mean that the write was committed and is not yet
// seen under every key. Sending it again then completes it, and so does Maintain.

// Insert adds a record. A record with the same identity and other contents is a
// Conflict. once, if not "", is the caller's Idempotency-Key: for a day, an insertion
// with the same key and record repeats the first one's answer, whatever has become of
// the record meanwhile.
func (c *Catalog) Insert(ctx context.Context, r record.Record, once string) (Written, error) {
	if err := c.Writable(ctx); err != nil {
		return Written{}, err
	}
	id, err := c.identify(r)
	if err != nil {
		return Written{}, err
	}
	var h *head // most likely there is none
	for range maxRaces {
		done, raced, err := c.add(ctx, h, id, r, once)
		if err != nil || !raced {
			return done, err
		}
		if once != "" {
			first, used, err := c.used(ctx, shardOf(id.First()), once, r.Hash())
			if err != nil {
				return Written{}, err
			}
			if used {
				err := c.complete(ctx, first.shard, first.id)
				return Written{Created, metaOf(first.Writes[0]), r}, err
			}
		}
		if h, err = c.readHead(ctx, id.First(), id.Hash()); err != nil {
			return Written{}, err
		}
	}
	return Written{}, c.busy()
}

// Put makes the record that of its identity: it creates the record, or replaces its
// contents.
func (c *Catalog) Put(ctx context.Context, r record.Record, on Condition) (Written, error) {
	if err := c.Writable(ctx); err != nil {
		return Written{}, err
	}
	id, err := c.identify(r)
	if err != nil {
		return Written{}, err
	}
	for range maxRaces {
		h, err := c.readHead(ctx, id.First(), id.Hash())
		if err == nil {
			err = on.check(h)
		}
		if err != nil {
			return Written{}, err
		}
		var done Written
		var raced bool
		if h.live() {
			done, raced, err = c.replace(ctx, h, writeFor(id), r)
		} else {
			done, raced, err = c.add(ctx, h, id, r, "")
		}
		if err != nil || !raced {
			return done, err
		}
	}
	return Written{}, c.busy()
}

// Replace puts the record in the place of the one that the selector finds, which must
// be one only. The record may have another identity, but not another first index value.
func (c *Catalog) Replace(ctx context.Context, r record.Record, selector Lookup, on Condition) (Written, error) {
	id, err := c.identify(r)
	if err != nil {
		return Written{}, err
	}
	done, err := c.changeOne(ctx, selector, on, func(record.Record) (record.Record, error) { return r, nil })
	if err != nil && problem.Of(err).Kind == problem.NotFound {
		// Perhaps a first try, whose answer was lost, has changed what it is found by.
		h, headErr := c.readHead(ctx, id.First(), id.Hash())
		if headErr == nil && h.live() && h.Content == r.Hash() {
			return Written{Unchanged, metaOf(h.Write), r}, c.complete(ctx, shardOf(h.First), h.Entry)
		}
	}
	return done, err
}

// Patch applies a JSON merge patch (RFC 7396) to the record that the selector finds,
// which must be one only. If index values change, the record moves.
func (c *Catalog) Patch(ctx context.Context, patch []byte, selector Lookup, on Condition) (Written, error) {
	return c.changeOne(ctx, selector, on, func(r record.Record) (record.Record, error) { return r.Merge(patch) })
}

// changeOne puts what change makes of it in the place of the only record that the
// selector finds.
func (c *Catalog) changeOne(ctx context.Context, selector Lookup, on Condition, change func(record.Record) (record.Record, error)) (Written, error) {
	if err := c.Writable(ctx); err != nil {
		return Written{}, err
	}
	for range maxRaces {
		found, err := c.selectOne(ctx, selector)
		if err == nil && found == nil {
			err = nothingSelected(on)
		}
		if err != nil {
			return Written{}, err
		}
		r, err := change(found.record)
		if err != nil {
			return Written{}, err
		}
		id, err := c.identify(r)
		if err != nil {
			return Written{}, err
		}
		if id.First() != found.id.First() {
			return Written{}, problem.Invalidf(c.Schema.Keys[0].Field, "is the first index key, which a record keeps for life: delete the record and insert the new one")
		}
		h, err := c.readHead(ctx, id.First(), found.id.Hash())
		if err != nil {
			return Written{}, err
		}
		if h == nil {
			return Written{}, c.unknown()
		}
		if h.Version != found.version { // the row is behind: a write is under way
			if err := c.complete(ctx, shardOf(h.First), h.Entry); err != nil {
				return Written{}, err
			}
			continue
		}
		if err := on.check(h); err != nil {
			return Written{}, err
		}
		done, raced, err := c.replace(ctx, h, writeFor(id), r)
		if err != nil || !raced {
			return done, err
		}
	}
	return Written{}, c.busy()
}

func nothingSelected(on Condition) error {
	if err := on.check(nil); err != nil {
		return err
	}
	return problem.NotFoundf("", "there is no record that the query string finds")
}

// add makes one try to insert the record, on condition that its identity's head is h.
func (c *Catalog) add(ctx context.Context, h *head, id index.Identity, r record.Record, once string) (done Written, raced bool, err error) {
	content := r.Hash()
	w, verdict := wal.Insertion(h.state(), writeFor(id), content, c.Now())
	switch verdict {
	case wal.Same:
		return Written{Unchanged, metaOf(h.Write), r}, false, c.complete(ctx, shardOf(w.First), h.Entry)
	case wal.Taken:
		return Written{}, false, c.taken(id.Row)
	}
	e := c.newEntry(wal.Insert, w.First, r, h.state())
	e.Writes = []wal.Write{w}
	raced, err = c.commit(ctx, e, []change{{h, w, content}}, c.onceOps(e, once, content)...)
	if err != nil || raced {
		return Written{}, raced, err
	}
	return Written{Created, metaOf(w), r}, false, c.carryOut(ctx, e)
}

// replace makes one try to put the record r, whose rows w describes, in the place of
// old's.
func (c *Catalog) replace(ctx context.Context, old *head, w wal.Write, r record.Record) (done Written, raced bool, err error) {
	var target *head
	if old != nil && old.Identity != w.Identity {
		if target, err = c.readHead(ctx, w.First, w.Identity); err != nil {
			return Written{}, false, err
		}
	}
	content := r.Hash()
	writes, verdict := wal.Replacement(old.state(), target.state(), w, content, c.Now())
	switch verdict {
	case wal.Same:
		return Written{Unchanged, metaOf(old.Write), r}, false, c.complete(ctx, shardOf(w.First), old.Entry)
	case wal.Absent:
		return Written{}, false, problem.NotFoundf("", "there is no such record to replace: insert it")
	case wal.Taken:
		return Written{}, false, c.taken(w.Row)
	}
	e := c.newEntry(wal.Replace, w.First, r, old.state(), target.state())
	e.Writes = writes
	changes := []change{{old, writes[0], content}}
	if len(writes) == 2 {
		if err := c.free(ctx, writes[1]); err != nil {
			return Written{}, false, err
		}
		changes = []change{{old, writes[0], ""}, {target, writes[1], content}}
	}
	if raced, err := c.commit(ctx, e, changes); err != nil || raced {
		return Written{}, raced, err
	}
	return Written{Replaced, metaOf(writes[len(writes)-1]), r}, false, c.carryOut(ctx, e)
}

// free checks that no other record has the write's rows. Another one may take them
// before they are written; but that two meet is rare, and this rarer still.
func (c *Catalog) free(ctx context.Context, w wal.Write) error {
	g, ctx := task.WithContext(ctx)
	for _, p := range w.Partitions {
		g.Go(func() error {
			row, found, err := c.Index.Get(ctx, key.Key{Partition: p, Row: w.Row})
			if err == nil && found && wal.Decide(c.slotOf(row).IndexRow, w) == wal.Collide {
				err = c.inTheWay(&collision{p, w.Row})
			}
			return err
		})
	}
	return g.Wait()
}

func (c *Catalog) inTheWay(cause error) error {
	return problem.Conflictf(c.Schema.Sort.Field, "the record was not written: change this value a little, or that of the record in its way").Because(cause)
}

// remove deletes the record r, whose identity is given. It reports false if the record
// is gone already, or has moved; then what made it so is completed.
func (c *Catalog) remove(ctx context.Context, first, identity string, r record.Record, on Condition) (bool, error) {
	for range maxRaces {
		h, err := c.readHead(ctx, first, identity)
		if err != nil {
			return false, err
		}
		w, verdict := wal.Removal(h.state())
		if verdict == wal.Absent {
			if h == nil {
				return false, c.unknown()
			}
			return false, c.complete(ctx, shardOf(first), h.Entry)
		}
		if err := on.check(h); err != nil {
			return false, err
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

func (c *Catalog) unknown() error {
	return problem.Conflictf("", "the catalog's log does not know the record: enter it there by: handler catalog check --repair")
}

func (c *Catalog) taken(row string) error {
	return problem.Conflictf("", "a record with the same index values and row key (%s) is there with other contents: PUT replaces it", row)
}

func (c *Catalog) busy() error {
	return problem.Busyf("", "others keep changing this record; try again")
}
