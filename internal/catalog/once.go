package catalog

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"tablesweep/internal/catalog/store"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/logtail/claim"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
)

// deleted is the outcome of a deletion, in the row that keeps its answer.
const deleted Outcome = "deleted"

// claims are those of all requests.
func (c *Catalog) claims() claim.Claims {
	return claim.Claims{Table: c.Log, Partition: store.ClaimsPartition}
}

// onceOf returns the id of a write that parts describe, by its Idempotency-Key.
func onceOf(key string, parts ...any) claim.ID {
	if key == "" {
		return claim.ID{} // parts may be what is refused later
	}
	return claim.Sent{Key: key}.ID(store.Encode(parts))
}

// claimed does a write under a claim of its id, which is made before anything is looked up. The claims are in one place: the error
// is a KeyReused if the Idempotency-Key was used for any other write of the catalog. A write that is wrong leaves no claim: mended, it
// comes again with its key.
func (c *Catalog) claimed(ctx context.Context, o claim.ID, write func(claim.Claim) error) error {
	if o.None() {
		return write(claim.Claim{})
	}
	made, err := c.claims().Take(ctx, o)
	if err != nil {
		return fmt.Errorf("catalog %s: %w", c.Name, err)
	}
	if err = write(made); err == nil {
		return nil
	}
	switch problem.Of(err).Kind {
	case problem.Invalid, problem.TooLarge:
		return cmp.Or(c.claims().Release(ctx, made), err)
	}
	return err
}

// decidedOnce is decided under a claim.
func (c *Catalog) decidedOnce(ctx context.Context, o claim.ID, try func() (raced bool, err error)) error {
	return c.claimed(ctx, o, func(claim.Claim) error { return c.decided(ctx, try) })
}

// shardsOf returns where a write may have left its answer, if its selector now finds the head. A record stays
// in its shard. If nothing is found, perhaps the write itself has moved the record away; if several are, the head is nil, too.
func shardsOf(h *store.Head, selector Lookup) []string {
	if first, _, ok := splitID(selector.ID); ok {
		return []string{store.ShardOf(first)}
	}
	if h != nil {
		return []string{store.ShardOf(h.First)}
	}
	return store.ShardNames()
}

// answered returns the first answer to a write with the id, and completes the write. used is false if
// none of the shards has one.
func (c *Catalog) answered(ctx context.Context, o claim.ID, shards ...string) (done Written, used bool, err error) {
	if o.None() {
		return Written{}, false, nil
	}
	var mu sync.Mutex
	err = store.EachOf(shards, func(shard string) error {
		first, found, err := c.answeredIn(ctx, o, shard)
		mu.Lock()
		defer mu.Unlock()
		if found {
			done, used = first, true
		}
		return err
	})
	return done, used, err
}

// answeredIn is answered for one shard. The error is KeyReused if the write was another one, and a Conflict if it was
// withdrawn.
func (c *Catalog) answeredIn(ctx context.Context, o claim.ID, shard string) (done Written, used bool, err error) {
	row, used, err := c.Log.Get(ctx, o.Row(shard).Key)
	if err != nil || !used {
		return Written{}, false, err
	}
	if err := o.Check(row); err != nil {
		return Written{}, false, err
	}
	var w wal.Write
	if err := store.Decode(row.Get("Write"), &w); err != nil {
		return Written{}, false, err
	}
	done = Written{Outcome: Outcome(row.Get("Outcome")), Meta: metaOf(w)}
	entry := row.Get("Entry")
	if done.Outcome == deleted {
		return done, true, c.complete(ctx, shard, entry)
	}
	row, found, err := c.Recorded(ctx, shard, entry)
	if found {
		done.Record = record.FromProperties(row.Properties)
		return done, true, c.complete(ctx, shard, entry)
	}
	var h *store.Head
	if err == nil { // a write that changed nothing may name an entry of which no change is kept any more
		h, err = c.ReadHead(ctx, w.First, w.Identity)
	}
	if err == nil && h.Live() && h.Version == w.Version {
		done.Record, found, err = c.contents(ctx, h)
	}
	if err == nil && !found { // perhaps who withdrew it died before the rows were gone
		err = refuse(problem.Conflictf("Idempotency-Key", "was used for this write when another record was in its way, or the record has changed since; read it, and use a new key"), w.First)
	}
	return done, true, err
}
