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

// Maintain leaves out an entry younger than inFlight, because the entry's own writer applies it.
const inFlight = 20 * time.Second

// Maintainer completes interrupted writes, and deletes rows that are no longer needed. Packages check and migrate use it to
// change records.
type Maintainer struct {
	*store.Store
	guard       *SchemaGuard
	stages      *stages
	clearer     *clearer
	keepChanges time.Duration
	tidying     claim.Tidying
}

// Maintain completes writes that crashes have interrupted. It deletes old changes. It also deletes tombstones and claims that
// are no longer needed. It may run at any time, even in several processes.
func (mt *Maintainer) Maintain(ctx context.Context) error {
	if err := mt.guard.Writable(ctx); err != nil {
		return fmt.Errorf("maintain: %w", err)
	}
	err := store.EachShard(func(shard store.Shard) error {
		err := mt.recoverShard(ctx, shard, false)
		return errors.Join(err, mt.clearer.clearDue(ctx, shard))
	})
	_, trimErr := changeLog(mt.Log, nil).Trim(ctx, mt.Clock().Add(-mt.keepChanges))
	return errors.Join(err, trimErr, mt.tidy(ctx))
}

// tidy deletes, at most once an hour, old claims and the answers that are stored for old requests.
func (mt *Maintainer) tidy(ctx context.Context) error {
	now := mt.ServiceNow()
	return mt.tidying.Due(now, func() error {
		err := store.EachOf(append(store.Shards(), store.ClaimsPartition), func(partition store.Shard) error {
			_, err := claim.Tidy(ctx, mt.Log, key.WithPrefix(string(partition), claim.Prefix), now)
			return err
		})
		if err != nil {
			return fmt.Errorf("catalog %s: %w", mt.Name, err)
		}
		return nil
	})
}

// CompleteAll applies all pending entries in the log, even parked entries and young entries. It does not check the stored
// schema.
func (mt *Maintainer) CompleteAll(ctx context.Context) error {
	return store.EachShard(func(shard store.Shard) error { return mt.recoverShard(ctx, shard, true) })
}

// recoverShard applies the shard's pending entries, and deletes tombstones that are no longer needed. If the argument `all` is
// false, recoverShard skips parked entries, and entries that are younger than inFlight. If an entry is invalid, or would always
// fail with the same error, recoverShard parks the entry; see park.
func (mt *Maintainer) recoverShard(ctx context.Context, shard store.Shard, all bool) error {
	var errs error
	// The notes of tombstones sort directly after the entries, so one query reads both.
	q := shard.Query(store.EntryPrefix)
	q.Range.High = shard.Query(store.TombstonePrefix).Range.High
	err := mt.Log.All(ctx, q, func(p storage.Page) error {
		var notes []storage.Entity
		for _, row := range p.Entities() {
			if strings.HasPrefix(row.Key.Row, store.TombstonePrefix) {
				if p.Date.Sub(row.Timestamp) >= tombstoneAge {
					notes = append(notes, row)
				}
				continue
			}
			if !all && (row.Get(store.ParkedColumn) != "" || p.Date.Sub(row.Timestamp) < inFlight) {
				continue
			}
			e, err := store.EntryOf(row)
			if errors.Is(err, store.ErrNewer) {
				zerolog.Ctx(ctx).Warn().Err(err).Str("catalog", mt.Name).Msg("a log entry was skipped, because a newer version of this program wrote the entry")
				continue
			}
			bad := err != nil
			if !bad {
				err = mt.stages.applyPending(ctx, e)
				bad = hopeless(err)
			}
			switch {
			case err == nil:
				zerolog.Ctx(ctx).Info().Str("catalog", mt.Name).Str("entry", row.Key.Row).Msg("write completed")
			case bad:
				errs = errors.Join(errs, mt.park(ctx, row, err))
			default:
				errs = errors.Join(errs, err)
			}
		}
		return mt.clearer.clearTombstones(ctx, shard, notes)
	})
	return errors.Join(errs, err)
}

// park stores in an entry the reason why the entry cannot be applied. Maintain skips parked entries, and package check reports
// them.
func (mt *Maintainer) park(ctx context.Context, row storage.Entity, reason error) error {
	zerolog.Ctx(ctx).Error().Err(reason).Str("catalog", mt.Name).Str("entry", row.Key.Row).Msg("a log entry cannot be applied; to see why, run: tablesweep catalog check")
	err := mt.Log.Write(ctx, storage.Op{Kind: storage.Merge, IfMatch: row.ETag, Row: storage.Entity{
		Key: row.Key, Properties: []storage.Property{storage.StringProperty(store.ParkedColumn, reason.Error())},
	}.Row()})
	if store.Overtaken(err) {
		return nil
	}
	return err
}
