package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"tablesweep/internal/catalog/index"
	"tablesweep/internal/catalog/store"
	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/problem"
	"tablesweep/internal/record"
	"tablesweep/internal/storage"
	"tablesweep/internal/stream/claim"
	"tablesweep/internal/task/memory"
)

// deleted is the Outcome in a row that stores a deletion's answer.
const deleted Outcome = "deleted"

func claimsIn(log *storage.Table) claim.Claims {
	return claim.Claims{Table: log, Partition: store.ClaimsPartition}
}

// onceOf returns the id of a write with the given Idempotency-Key. The values in parts describe the write.
func onceOf(key string, parts ...any) claim.ID {
	if key == "" {
		return claim.ID{} // `parts` is not encoded here, because some values may be invalid, and are refused only later
	}
	return claim.Sent{Key: key}.ID(store.Encode(parts))
}

// doOnce carries out the request with the id o, or returns the answer of an earlier try. It first claims the request, if a
// claim is needed. Then it calls the function `write`. The transaction that commits the write also stores the answer, in one
// of the shards. If the Idempotency-Key was used for a different write to this catalog, the error is KeyReused. If a write
// is invalid, doOnce releases its claim, so a corrected write can use the same key.
func (wr *Writer) doOnce(ctx context.Context, o claim.ID, shards []store.Shard, write func() (Written, error)) (Written, error) {
	if err := wr.guard.Writable(ctx); err != nil {
		return Written{}, err
	}
	if o.None() {
		return write()
	}
	var claimed claim.Claim
	if o.Keyed() || len(shards) > 1 { // if the host chose the id, and only one shard can store the answer, no claim is needed
		var err error
		if claimed, err = claimsIn(wr.Log).Take(ctx, o); err != nil {
			return Written{}, fmt.Errorf("catalog %s: %w", wr.Name, err)
		}
	}
	if claimed.Known {
		if first, found, err := wr.answered(ctx, o, shards); found || err != nil {
			return first, err
		}
	}
	done, err := write()
	if errors.As(err, new(*refused)) || errors.Is(err, errRepeated) { // perhaps another try was faster
		if first, found, failed := wr.answered(ctx, o, shards); found || failed != nil {
			return first, failed
		}
	}
	if wrong := problem.Of(err).Kind; o.Keyed() && (wrong == problem.Invalid || wrong == problem.TooLarge) {
		err = cmp.Or(claimsIn(wr.Log).Release(ctx, claimed), err)
	}
	return done, err
}

// writeOne writes the only record that the selector finds, for the request with the id o. It calls the function `decide` with the
// record's head.
func (wr *Writer) writeOne(ctx context.Context, selector Lookup, on Condition, o claim.ID, decide func(*store.Head) (decision, error)) (Written, error) {
	shards, err := shardsOf(wr.Schema, selector)
	if err != nil {
		return Written{}, err
	}
	part := memory.PartIn(ctx)
	held := part.Used()
	return wr.doOnce(ctx, o, shards, func() (Written, error) {
		return wr.stages.write(ctx, o, func() (decision, error) {
			part.SetUsed(held) // releases the memory of an earlier decision's data
			h, err := wr.chooser.choose(ctx, selector, on)
			if err != nil {
				return decision{}, err
			}
			return decide(h)
		})
	})
}

// shardsOf checks a selector, and returns the shards of all records that the selector may find. The result remains valid, because
// a record never leaves its shard.
func shardsOf(s index.Schema, selector Lookup) ([]store.Shard, error) {
	if first, _, ok := splitID(selector.ID); ok {
		return []store.Shard{store.ShardOf(first)}, nil
	}
	if selector.ID != "" {
		return nil, nil
	}
	p, err := newPlan(s, selector)
	if err != nil || p.keys[0].rank > 0 {
		return store.Shards(), err
	}
	var shards []store.Shard
	for _, first := range p.keys[0].partitions {
		shards = append(shards, store.ShardOf(index.FirstHashOf(first.Value)))
	}
	slices.Sort(shards)
	return slices.Compact(shards), nil
}

// answered returns the stored answer to the request with the id o, and completes the request's write. If no shard has an answer,
// found is false.
func (wr *Writer) answered(ctx context.Context, o claim.ID, shards []store.Shard) (first Written, found bool, err error) {
	var mu sync.Mutex
	err = store.EachOf(shards, func(shard store.Shard) error {
		done, here, err := wr.answeredIn(ctx, o, shard)
		mu.Lock()
		defer mu.Unlock()
		if here {
			first, found = done, true
		}
		return err
	})
	if err != nil {
		return Written{}, found, err
	}
	return first, found, nil
}

// answeredIn is like [Writer.answered], but searches only one shard. If the id was used for a different write, the error is
// KeyReused. If the write was withdrawn, the error is a Conflict.
func (wr *Writer) answeredIn(ctx context.Context, o claim.ID, shard store.Shard) (first Written, found bool, err error) {
	row, found, err := wr.Log.Get(ctx, o.Row(string(shard)).Key)
	if err != nil || !found {
		return Written{}, false, err
	}
	if err := o.Check(row); err != nil {
		return Written{}, false, err
	}
	var w wal.Write
	if err := store.Decode(row.Get("Write"), &w); err != nil {
		return Written{}, false, err
	}
	first = Written{Outcome: Outcome(row.Get("Outcome")), Meta: metaOf(w)}
	entry := wal.EntryID(row.Get("Entry"))
	if first.Outcome == deleted {
		return first, true, wr.stages.complete(ctx, shard, entry)
	}
	if row, found, err = wr.reader.recorded(ctx, shard, entry); found {
		first.Record = record.FromProperties(row.Properties)
		return first, true, wr.stages.complete(ctx, shard, entry)
	}
	var h *store.Head
	if err == nil { // if the write changed nothing, its stored answer names an older entry, which may be deleted by now
		h, err = wr.ReadHead(ctx, w.First, w.Identity)
	}
	if err == nil && h.Live() && h.Version == w.Version {
		first.Record, found, err = wr.reader.contents(ctx, h)
	}
	if err == nil && !found {
		_, err = wr.stages.applyFor(ctx, []index.FirstHash{w.First}) // if the write was withdrawn, its rows may still exist; applyFor deletes these rows
		err = cmp.Or(err, error(problem.Conflictf("Idempotency-Key", "was already used for this write, but the write's answer cannot be repeated: the write was refused, or a later write has changed the record; read the record, and use a new key")))
	}
	return first, true, err
}
