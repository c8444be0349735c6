package catalog

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"tablesweep/internal/catalog/store"
	"tablesweep/internal/catalog/wal"
)

// refused is a refusal for what others have committed. The log knows that; readers go by index rows, which may not
// have it yet.
type refused struct {
	error
	firsts []string // the first index values, as hashes, of the records that it is about
}

func (e *refused) Unwrap() error { return e.error }

// refuse returns err as a refusal that is about records with these first index values; nil stays nil.
func refuse(err error, firsts ...string) error {
	if err == nil {
		return nil
	}
	return &refused{err, firsts}
}

// decided tries a write until no other overtakes it. If the try is refused while writes of the same records are
// under way, it carries these out and tries once more: whoever reads after a refusal sees what it was for.
func (c *Catalog) decided(ctx context.Context, try func() (raced bool, err error)) error {
	carried := false
	for range maxRaces {
		raced, err := try()
		if r := (*refused)(nil); !carried && errors.As(err, &r) {
			var failed error
			if carried, failed = c.carryOutFor(ctx, r.firsts); failed != nil {
				return failed
			}
			if carried {
				continue
			}
		}
		if err != nil || !raced {
			return err
		}
	}
	return c.busy()
}

// carryOutFor carries out what is under way for records with these first index values: a request for each of their
// shards. some means that there was something.
func (c *Catalog) carryOutFor(ctx context.Context, firsts []string) (some bool, err error) {
	var shards []string
	for _, first := range firsts {
		shards = append(shards, store.ShardOf(first))
	}
	slices.Sort(shards)
	var any atomic.Bool
	err = store.EachOf(slices.Compact(shards), func(shard string) error {
		did, err := c.completeAll(ctx, shard, func(w wal.Write) bool { return slices.Contains(firsts, w.First) })
		if did {
			any.Store(true)
		}
		return err
	})
	return any.Load(), err
}
