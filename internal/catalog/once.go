package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"sync"

	"tablesweep/internal/catalog/store"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
)

// once is a write's Idempotency-Key. The zero value is none.
type once struct {
	key     string
	request string // hash of what the write was asked to do
}

// onceOf returns the key of a write that parts describe.
func onceOf(key string, parts ...any) once { return once{key, hashOf(store.Encode(parts))} }

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// at returns the key of the row that keeps the use of the Idempotency-Key.
func (o once) at(shard string) key.Key {
	return key.Key{Partition: shard, Row: store.OncePrefix + hashOf(o.key)}
}

// onceOps returns the operations that keep the use of an Idempotency-Key, and the answer: the entry has its record. There are
// none without a key.
func (c *Catalog) onceOps(o once, shard, entry string, w wal.Write, did Outcome) []storage.Op {
	if o.key == "" {
		return nil
	}
	at := o.at(shard)
	return []storage.Op{
		{Kind: storage.Insert, Entity: storage.Entity{Key: at, Properties: []storage.Property{
			storage.StringProperty("Request", o.request),
			storage.StringProperty("Outcome", string(did)),
			storage.StringProperty("Write", store.Encode(w)),
			storage.StringProperty("Entry", entry),
		}}},
		c.clearLater(shard, at.Row, storage.StringProperty("Row", at.Row)),
	}
}

// shardsOf returns where a write may have left its Idempotency-Key, if its selector now finds the head. A record stays
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

// answered returns the first answer to a write with the Idempotency-Key, and completes the write. used is false if
// none of the shards has one.
func (c *Catalog) answered(ctx context.Context, o once, shards ...string) (done Written, used bool, err error) {
	if o.key == "" {
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
func (c *Catalog) answeredIn(ctx context.Context, o once, shard string) (done Written, used bool, err error) {
	row, used, err := c.Log.Get(ctx, o.at(shard))
	if err != nil || !used {
		return Written{}, false, err
	}
	if row.Get("Request") != o.request {
		return Written{}, false, problem.ReusedKey()
	}
	var w wal.Write
	if err := store.Decode(row.Get("Write"), &w); err != nil {
		return Written{}, false, err
	}
	done = Written{Outcome: Outcome(row.Get("Outcome")), Meta: metaOf(w)}
	entry := row.Get("Entry")
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
	if err == nil && !found {
		err = problem.Conflictf("Idempotency-Key", "was used for this write when another record was in its way, or the record has changed since; read it, and use a new key")
	}
	return done, true, err
}
