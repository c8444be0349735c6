package catalog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/catalog/wal"
	"tablesweep/internal/logtail"
	"tablesweep/internal/storage"
)

const (
	// inFlight is the age below which an entry is left to the writer that made it.
	inFlight = 20 * time.Second
	// parallel is how many shards or records are worked on at once.
	parallel = 8
)

// Recovered is what recovery did.
type Recovered struct {
	Applied int `json:"applied"` // entries, or changes, whose rows were written or found in place
	Parked  int `json:"parked"`  // entries that can't be applied; they stay in the log with their reason
}

func (r *Recovered) add(o Recovered) {
	r.Applied += o.Applied
	r.Parked += o.Parked
}

// Maintain completes what crashes have left, and clears away what is no longer
// needed: rows that say "gone", used idempotency keys, old changes. It may run at any
// time, several times at once.
func (c *Catalog) Maintain(ctx context.Context) error {
	if err := c.Writable(ctx); err != nil {
		return fmt.Errorf("maintain: %w", err)
	}
	err := c.eachShard(func(shard string) error {
		_, err := c.recoverShard(ctx, shard, inFlight, false)
		return errors.Join(err, c.clearDue(ctx, shard))
	})
	_, trimErr := c.changes(shardNames()...).Trim(ctx, c.Now().Add(-c.KeepChanges))
	return errors.Join(err, trimErr)
}

// Recover applies all entries in the log, those of writers under way and those
// that were parked among them. With a time, it then applies the changes since then
// again: to repair an index table that was damaged or set back.
func (c *Catalog) Recover(ctx context.Context, since time.Time) (Recovered, error) {
	if err := c.Writable(ctx); err != nil {
		return Recovered{}, err
	}
	return c.recover(ctx, since)
}

func (c *Catalog) recover(ctx context.Context, since time.Time) (Recovered, error) {
	var mu sync.Mutex
	var all Recovered
	err := c.eachShard(func(shard string) error {
		r, err := c.recoverShard(ctx, shard, 0, true)
		if err == nil && !since.IsZero() {
			var again int
			again, err = c.repeat(ctx, shard, since)
			r.Applied += again
		}
		mu.Lock()
		defer mu.Unlock()
		all.add(r)
		return err
	})
	return all, err
}

// recoverShard applies the shard's entries that are older than minAge. One that
// the service refuses for good is parked, and then left alone unless parked ones are
// to be tried again. It also deletes rows that say "gone" and are needed no more.
func (c *Catalog) recoverShard(ctx context.Context, shard string, minAge time.Duration, again bool) (Recovered, error) {
	var r Recovered
	var errs error
	// Directly behind the entries stands what clearGone wants.
	q := prefixQuery(shard, entryPrefix)
	q.Range.High = prefixQuery(shard, gonePrefix).Range.High
	err := c.Log.All(ctx, q, func(p storage.Page) error {
		var notes []storage.Entity
		for _, row := range p.Entities {
			if strings.HasPrefix(row.Key.Row, gonePrefix) {
				if p.Date.Sub(row.Timestamp) >= goneAfter {
					notes = append(notes, row)
				}
				continue
			}
			if parked := row.Get(parkedColumn) != ""; parked && !again {
				r.Parked++
				continue
			}
			if minAge > 0 && p.Date.Sub(row.Timestamp) < minAge {
				continue
			}
			e, err := entryOf(row)
			if errors.Is(err, errNewer) {
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
		return c.clearGone(ctx, shard, notes)
	})
	return r, errors.Join(errs, err)
}

// park marks an entry with the reason why it can't be applied.
func (c *Catalog) park(ctx context.Context, row storage.Entity, reason error) error {
	zerolog.Ctx(ctx).Error().Err(reason).Str("catalog", c.Name).Str("entry", row.Key.Row).Msg("entry parked")
	err := c.Log.Write(ctx, storage.Op{Kind: storage.Merge, IfMatch: row.ETag, Entity: storage.Entity{
		Key: row.Key, Properties: []storage.Property{storage.StringProperty(parkedColumn, reason.Error())},
	}})
	if overtaken(err) {
		return nil
	}
	return err
}

// repeat applies the shard's changes since a time again, as far as they are the
// newest of their identities.
func (c *Catalog) repeat(ctx context.Context, shard string, since time.Time) (int, error) {
	n := 0
	for row, err := range c.changes(shard).All(ctx, logtail.Span{Newer: logtail.Since(since.Add(-wal.Tick))}) {
		if err != nil {
			return n, err
		}
		e, err := entryOf(row)
		if err != nil {
			return n, err
		}
		writes, forgotten, err := c.current(ctx, e)
		if gone := goneOf(writes); err == nil && len(gone) > 0 {
			// What was noted may be done with before the rows are there again.
			err = c.Log.Write(ctx, c.clearLater(e, storage.StringProperty("Writes", encode(gone))))
		}
		if err == nil {
			_, err = c.apply(ctx, e, writes)
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
