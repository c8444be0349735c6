package catalog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/catalog/store"
	"tablesweep/internal/key"
	"tablesweep/internal/storage"
	"tablesweep/internal/stream/claim"
)

// inFlight is the age up to which an entry is left to its own writer.
const inFlight = 20 * time.Second

// Maintain completes the writes that crashes have left unfinished. It deletes tombstones,
// claims of requests and old changes that are no longer needed. It may run at any time,
// and several times at once.
func (c *Catalog) Maintain(ctx context.Context) error {
	if err := c.Writable(ctx); err != nil {
		return fmt.Errorf("maintain: %w", err)
	}
	err := store.EachShard(func(shard string) error {
		err := c.recoverShard(ctx, shard, inFlight, false)
		return errors.Join(err, c.clearDue(ctx, shard))
	})
	_, trimErr := changeLog(c.Log, nil).Trim(ctx, c.Clock().Add(-c.keepChanges))
	return errors.Join(err, trimErr, c.tidy(ctx))
}

// tidy deletes the claims that are no longer needed, and the answers that were kept beside records, if it is due.
func (c *Catalog) tidy(ctx context.Context) error {
	now := c.ServiceNow()
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

// CompleteAll applies all entries in the log, including parked ones and those of writers under way. It does not ask whether the
// stored schema is ours.
func (c *Catalog) CompleteAll(ctx context.Context) error {
	return store.EachShard(func(shard string) error { return c.recoverShard(ctx, shard, 0, true) })
}

// recoverShard applies the shard's entries that are older than minAge. It parks an entry
// that the service refuses for good. Parked entries are tried only if again is set. It also
// deletes tombstones that are no longer needed.
func (c *Catalog) recoverShard(ctx context.Context, shard string, minAge time.Duration, again bool) error {
	var errs error
	// The notes of tombstones sort directly behind the entries.
	q := store.PrefixQuery(shard, store.EntryPrefix)
	q.Range.High = store.PrefixQuery(shard, store.TombstonePrefix).Range.High
	err := c.Log.All(ctx, q, func(p storage.Page) error {
		var notes []storage.Entity
		for _, row := range p.Entities() {
			if strings.HasPrefix(row.Key.Row, store.TombstonePrefix) {
				if p.Date.Sub(row.Timestamp) >= tombstoneAge {
					notes = append(notes, row)
				}
				continue
			}
			if parked := row.Get(store.ParkedColumn) != ""; parked && !again {
				continue
			}
			if minAge > 0 && p.Date.Sub(row.Timestamp) < minAge {
				continue
			}
			e, err := store.EntryOf(row)
			if errors.Is(err, store.ErrNewer) {
				zerolog.Ctx(ctx).Warn().Err(err).Str("catalog", c.Name).Msg("entry left alone")
				continue
			}
			bad := err != nil
			if !bad {
				err = c.applyPending(ctx, e)
				bad = hopeless(err)
			}
			switch {
			case err == nil:
				zerolog.Ctx(ctx).Info().Str("catalog", c.Name).Str("entry", row.Key.Row).Msg("write completed")
			case bad:
				errs = errors.Join(errs, c.park(ctx, row, err))
			default:
				errs = errors.Join(errs, err)
			}
		}
		return c.clearTombstones(ctx, shard, notes)
	})
	return errors.Join(errs, err)
}

// park marks an entry with the reason that keeps it from being applied.
func (c *Catalog) park(ctx context.Context, row storage.Entity, reason error) error {
	zerolog.Ctx(ctx).Error().Err(reason).Str("catalog", c.Name).Str("entry", row.Key.Row).Msg("entry parked")
	err := c.Log.Write(ctx, storage.Op{Kind: storage.Merge, IfMatch: row.ETag, Row: storage.Entity{
		Key: row.Key, Properties: []storage.Property{storage.StringProperty(store.ParkedColumn, reason.Error())},
	}.Row()})
	if store.Overtaken(err) {
		return nil
	}
	return err
}
