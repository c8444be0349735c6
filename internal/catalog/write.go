package catalog

import (
	"context"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
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
			if done, used, err := c.insertedBy(ctx, id, r, once); err != nil || used {
				return done, err
			}
		}
		if h, err = c.readHead(ctx, id.First(), id.Hash()); err != nil {
			return Written{}, err
		}
	}
	return Written{}, c.busy()
}

// insertedBy returns what the first insertion of the record with the Idempotency-Key did,
// which it completes. used reports whether there was one.
func (c *Catalog) insertedBy(ctx context.Context, id index.Identity, r record.Record, once string) (done Written, used bool, err error) {
	first, used, err := c.used(ctx, shardOf(id.First()), once, r.Hash())
	if err != nil || !used {
		return Written{}, false, err
	}
	return Written{Created, metaOf(first.Writes[0]), r}, true, c.complete(ctx, first.shard, first.id)
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
