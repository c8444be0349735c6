package catalog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/catalog/store"
	"tablesweep/internal/key"
	"tablesweep/internal/logtail"
	"tablesweep/internal/logtail/claim"
	"tablesweep/internal/storage"
)

// inFlight is the age up to which an entry is left to its own writer.
const inFlight = 20 * time.Second

// Recovered is the summary of a recovery.
type Recovered struct {
	Applied int `json:"applied"` // entries or changes whose rows were written or found in place
	Parked  int `json:"parked"`  // entries that can't be applied; they stay in the log, with the reason
}

// Maintain completes the writes that crashes have left unfinished. It deletes tombstones,
// claims of requests and old changes that are no longer needed. It may run at any time,
// and several times at once.
func (c *Catalog) Maintain(ctx context.Context) error {
	if err := c.Writable(ctx); err != nil {
		return fmt.Errorf("maintain: %w", err)
	}
	err := store.EachShard(func(shard string) error {
		_, err := c.recoverShard(ctx, shard, inFlight, false)
		return errors.Join(err, c.clearDue(ctx, shard))
	})
	_, trimErr := c.changes(store.ShardNames()...).Trim(ctx, c.now().Add(-c.keepChanges))
	return errors.Join(err, trimErr, c.tidy(ctx))
}

// tidy deletes the claims that are no longer needed, and the answers that were kept beside records, if it is due.
func (c *Catalog) tidy(ctx context.Context) error {
	now := c.serviceNow()
	return c.tidying.Due(now, func() error {
		err := store.EachOf(append(store.ShardNames(), store.ClaimsPartition), func(partition string) error {
			_, err := claim.Tidy(ctx, c.Log, key.WithPrefix(partition, claim.Prefix), now)
			return err
		})
		if err != nil {
			return fmt.Errorf("catalog %s: %w", c.Name, err)
		}
		return nil
	})
}

// Recover applies all entries in the log, including parked ones and those of writers under
// way. With a time, it then applies the changes since that time again, to repair an index
// table that was damaged or restored from a backup.
func (c *Catalog) Recover(ctx context.Context, since time.Time) (Recovered, error) {
	if err := c.Writable(ctx); err != nil {
		return Recovered{}, err
	}
	return c.CompleteAll(ctx, since)
}

// CompleteAll is Recover for a migration, which has stopped all writers: it does not ask
// whether the stored schema is ours.
func (c *Catalog) CompleteAll(ctx context.Context, since time.Time) (Recovered, error) {
	var mu sync.Mutex
	var all Recovered
	err := store.EachShard(func(shard string) error {
		r, err := c.recoverShard(ctx, shard, 0, true)
		if err == nil && !since.IsZero() {
			var again int
			again, err = c.repeat(ctx, shard, since)
			r.Applied += again
		}
		mu.Lock()
		defer mu.Unlock()
		all.Applied += r.Applied
		all.Parked += r.Parked
		return err
	})
	return all, err
}

// recoverShard applies the shard's entries that are older than minAge. It parks an entry
// that the service refuses for good. Parked entries are tried only if again is set. It also
// deletes tombstones that are no longer needed.
func (c *Catalog) recoverShard(ctx context.Context, shard string, minAge time.Duration, again bool) (Recovered, error) {
	var r Recovered
	var errs error
	// The notes of tombstones sort directly behind the entries.
	q := store.PrefixQuery(shard, store.EntryPrefix)
	q.Range.High = store.PrefixQuery(shard, store.TombstonePrefix).Range.High
	err := c.Log.All(ctx, q, func(p storage.Page) error {
		var notes []storage.Entity
		for _, row := range p.Entities {
			if strings.HasPrefix(row.Key.Row, store.TombstonePrefix) {
				if p.Date.Sub(row.Timestamp) >= tombstoneAge {
					notes = append(notes, row)
				}
				continue
			}
			if parked := row.Get(store.ParkedColumn) != ""; parked && !again {
				r.Parked++
				continue
			}
			if minAge > 0 && p.Date.Sub(row.Timestamp) < minAge {
				continue
			}
			e, err := store.EntryOf(row)
			if errors.Is(err, store.ErrNewer) {
				r.Parked++
				zerolog.Ctx(ctx).Warn().Err(err).Str("catalog", c.Name).Msg("entry left alone")
				continue
			}
			bad := err != nil
			if !bad {
				err = c.redo(ctx, e)
				bad = hopeless(err)
			}
			switch {
			case err == nil:
				r.Applied++
				zerolog.Ctx(ctx).Info().Str("catalog", c.Name).Str("entry", row.Key.Row).Msg("write completed")
			case bad:
				r.Parked++
				errs = errors.Join(errs, c.park(ctx, row, err))
			default:
				errs = errors.Join(errs, err)
			}
		}
		return c.clearTombstones(ctx, shard, notes)
	})
	return r, errors.Join(errs, err)
}

// park marks an entry with the reason that keeps it from being applied.
func (c *Catalog) park(ctx context.Context, row storage.Entity, reason error) error {
	zerolog.Ctx(ctx).Error().Err(reason).Str("catalog", c.Name).Str("entry", row.Key.Row).Msg("entry parked")
	err := c.Log.Write(ctx, storage.Op{Kind: storage.Merge, IfMatch: row.ETag, Entity: storage.Entity{
		Key: row.Key, Properties: []storage.Property{storage.StringProperty(store.ParkedColumn, reason.Error())},
	}})
	if store.Overtaken(err) {
		return nil
	}
	return err
}

// repeat applies the shard's changes since a time again, except writes that newer ones
// have replaced.
func (c *Catalog) repeat(ctx context.Context, shard string, since time.Time) (int, error) {
	n := 0
	for row, err := range c.changes(shard).All(ctx, logtail.Span{Newer: logtail.Since(since.Add(-key.Tick))}) {
		if err != nil {
			return n, err
		}
		e, err := store.EntryOf(row)
		if err != nil {
			return n, err
		}
		writes, forgotten, _, err := c.current(ctx, e)
		if gone := removalsOf(writes); err == nil && len(gone) > 0 {
			// The earlier note may be used up before the tombstones are back.
			err = c.Log.Write(ctx, c.clearLater(shard, e.ID, storage.StringProperty("Writes", store.Encode(gone))))
		}
		if err == nil {
			_, err = c.apply(ctx, e, writes, nil)
		}
		for _, w := range forgotten {
			err = errors.Join(err, c.clearForgotten(ctx, w))
		}
		if err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
