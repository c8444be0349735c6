package catalog

import (
	"cmp"
	"context"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/store"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
	"tablesweep/internal/task"
)

// Outcome says what a write did.
type Outcome string

// The outcomes.
const (
	Created   Outcome = "created"
	Replaced  Outcome = "replaced"
	Unchanged Outcome = "unchanged" // the same record existed already
)

// Written is the result of a write: what it did, and the record that exists now.
type Written struct {
	Outcome
	Meta
	Record record.Record
}

// After an error of Insert, Put, Replace or Patch, the write may be committed and not yet
// visible under every key. A retry completes it then, and so does Maintain.

// Insert adds a record. If a record with the same identity and other contents exists, the
// error is a Conflict. once, if not "", is the caller's Idempotency-Key: for a day, an
// insertion with the same key and record returns the first one's result, even if the record
// has changed since.
func (c *Catalog) Insert(ctx context.Context, r record.Record, once string) (Written, error) {
	if err := c.Writable(ctx); err != nil {
		return Written{}, err
	}
	id, err := c.Identify(r)
	if err != nil {
		return Written{}, err
	}
	var h *store.Head // most likely there is none
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
		if h, err = c.ReadHead(ctx, id.First(), id.Hash()); err != nil {
			return Written{}, err
		}
	}
	return Written{}, c.busy()
}

// insertedBy completes the first insertion with the Idempotency-Key, and returns its result.
// used is false if there was none.
func (c *Catalog) insertedBy(ctx context.Context, id index.Identity, r record.Record, once string) (done Written, used bool, err error) {
	first, used, err := c.used(ctx, store.ShardOf(id.First()), once, r.Hash())
	if err != nil || !used {
		return Written{}, false, err
	}
	return Written{Created, metaOf(first.Writes[0]), r}, true, c.complete(ctx, first.Shard, first.ID)
}

// Put creates the record, or replaces the contents of the record that has its identity.
func (c *Catalog) Put(ctx context.Context, r record.Record, on Condition) (Written, error) {
	if err := c.Writable(ctx); err != nil {
		return Written{}, err
	}
	id, err := c.Identify(r)
	if err != nil {
		return Written{}, err
	}
	for range maxRaces {
		h, err := c.ReadHead(ctx, id.First(), id.Hash())
		if err == nil {
			err = on.check(h)
		}
		if err != nil {
			return Written{}, err
		}
		var done Written
		var raced bool
		if h.Live() {
			done, raced, err = c.replace(ctx, h, store.WriteFor(id), r)
		} else {
			done, raced, err = c.add(ctx, h, id, r, "")
		}
		if err != nil || !raced {
			return done, err
		}
	}
	return Written{}, c.busy()
}

// Replace replaces the only record that the selector finds. The new record may have another
// identity, but must have the same first index value.
func (c *Catalog) Replace(ctx context.Context, r record.Record, selector Lookup, on Condition) (Written, error) {
	id, err := c.Identify(r)
	if err != nil {
		return Written{}, err
	}
	done, err := c.changeOne(ctx, selector, on, func(record.Record) (record.Record, error) { return r, nil })
	if err != nil && problem.Of(err).Kind == problem.NotFound {
		// Perhaps the first try, whose answer was lost, has changed the values that the
		// selector asks for.
		h, headErr := c.ReadHead(ctx, id.First(), id.Hash())
		if headErr == nil && h.Live() && h.Content == r.Hash() {
			return Written{Unchanged, metaOf(h.Write), r}, c.complete(ctx, store.ShardOf(h.First), h.Entry)
		}
	}
	return done, err
}

// Patch applies a JSON merge patch (RFC 7396) to the only record that the selector finds.
// If index values or the sort value change, the record moves.
func (c *Catalog) Patch(ctx context.Context, patch []byte, selector Lookup, on Condition) (Written, error) {
	return c.changeOne(ctx, selector, on, func(r record.Record) (record.Record, error) { return r.Merge(patch) })
}

// changeOne replaces the only record that the selector finds by the result of change.
func (c *Catalog) changeOne(ctx context.Context, selector Lookup, on Condition, change func(record.Record) (record.Record, error)) (Written, error) {
	if err := c.Writable(ctx); err != nil {
		return Written{}, err
	}
	for range maxRaces {
		found, err := c.selectOne(ctx, selector)
		if err == nil && found == nil {
			err = cmp.Or(on.check(nil), error(problem.NotFoundf("", "there is no record that the query string finds")))
		}
		if err != nil {
			return Written{}, err
		}
		r, err := change(found.record)
		if err != nil {
			return Written{}, err
		}
		id, err := c.Identify(r)
		if err != nil {
			return Written{}, err
		}
		if id.First() != found.id.First() {
			return Written{}, problem.Invalidf(c.Schema.Keys[0].Field, "is the first index key, which never changes; delete the record and insert the new one")
		}
		h, err := c.ReadHead(ctx, id.First(), found.id.Hash())
		if err != nil {
			return Written{}, err
		}
		if h == nil {
			return Written{}, c.unknown()
		}
		if h.Version != found.version { // the row is out of date: a write is under way
			if err := c.complete(ctx, store.ShardOf(h.First), h.Entry); err != nil {
				return Written{}, err
			}
			continue
		}
		if err := on.check(h); err != nil {
			return Written{}, err
		}
		done, raced, err := c.replace(ctx, h, store.WriteFor(id), r)
		if err != nil || !raced {
			return done, err
		}
	}
	return Written{}, c.busy()
}

// bulkWriters is how many records WriteAll writes at once: enough to keep a laptop's
// connection busy, and fewer than the log's shards can take.
const bulkWriters = 64

// Result is the result of one of several writes.
type Result struct {
	Written
	Err error
}

// InsertAll inserts records as Insert does, many at once; see [Catalog.WriteAll].
func (c *Catalog) InsertAll(ctx context.Context, records []record.Record) []Result {
	return c.WriteAll(ctx, records, func(ctx context.Context, r record.Record) (Written, error) { return c.Insert(ctx, r, "") })
}

// WriteAll writes records by the function write, many at once, but those with the same identity
// in their order. It returns a result for each. If the process dies, some are written and some
// are not; after Maintain, none is half written.
func (c *Catalog) WriteAll(ctx context.Context, records []record.Record, write func(context.Context, record.Record) (Written, error)) []Result {
	results := make([]Result, len(records))
	var identities []string
	same := map[string][]int{} // by identity
	for i, r := range records {
		id, err := c.Identify(r)
		if err != nil {
			results[i].Err = err
			continue
		}
		hash := id.Hash()
		if len(same[hash]) == 0 {
			identities = append(identities, hash)
		}
		same[hash] = append(same[hash], i)
	}
	var g task.Group
	g.SetLimit(bulkWriters)
	for _, hash := range identities {
		g.Go(func() error {
			for _, i := range same[hash] {
				results[i].Err = task.Do(func() (err error) {
					results[i].Written, err = write(ctx, records[i])
					return err
				})
			}
			return nil
		})
	}
	_ = g.Wait() // errors are among the results
	return results
}
