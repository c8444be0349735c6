package logtail

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

const (
	// maintainTime is the maximum duration of one call of Maintain.
	maintainTime = time.Minute
	// After a process has trimmed a stream without an error, it waits at least an interval before it trims the stream
	// again. The interval is the stream's retention divided by trimShare, but at least minTrimInterval and at most
	// maxTrimInterval. Each trim costs a query for each shard, even if no event is too old.
	trimShare       = 50
	minTrimInterval = time.Minute
	maxTrimInterval = time.Hour
)

// Maintain deletes the events that are older than their stream's retention, and the notes of idempotency keys that were used
// more than a day ago. It may run at any time, and several calls may run concurrently. After an error, it continues with the
// other streams. A call takes at most a minute. The next call continues the work.
func (s *Streams) Maintain(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, maintainTime)
	defer cancel()
	removed, errs := s.trimAll(limited)
	notes, err := s.tidy(limited)
	if removed += notes; err != nil {
		errs = append(errs, err)
	}
	// If Maintain has deleted some rows, and the caller's context has not ended, it returns no error for a timeout.
	others := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return errors.Is(err, context.DeadlineExceeded) })
	if ctx.Err() == nil && removed > 0 && len(others) < len(errs) {
		zerolog.Ctx(ctx).Info().Int64("removed", removed).Msg("not all old events could be deleted within a minute; the next run continues")
		errs = others
	}
	return errors.Join(errs...)
}

func (s *Streams) trimAll(ctx context.Context) (removed int64, errs []error) {
	if !s.options.anyRetention() {
		return 0, nil
	}
	streams, date, err := s.listAll(ctx)
	if err != nil {
		errs = append(errs, fmt.Errorf("the list of streams cannot be read: %w", err))
	}
	// If trimming one stream uses up the time, this call does not trim the streams after it. The random order gives
	// these streams a chance in the next calls.
	rand.Shuffle(len(streams), func(i, j int) { streams[i], streams[j] = streams[j], streams[i] })
	for _, l := range streams {
		n, err := s.trim(ctx, l, date)
		removed += n
		if err != nil {
			errs = append(errs, fmt.Errorf("old events of stream %q were not deleted: %w", l.name, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	return removed, errs
}

// listAll returns all streams, and the service's time. If some streams cannot be read, it returns the other streams and an
// error.
func (s *Streams) listAll(ctx context.Context) (streams []listing, date time.Time, err error) {
	var unread error
	err = s.options.Table.All(ctx, storage.Query{Range: key.Range{Partition: new(streamsPartition)}}, func(p storage.Page) error {
		if date.IsZero() {
			date = p.Date
		}
		for _, e := range p.Entities() {
			l, err := listingOf(e, p.Date)
			if err != nil {
				unread = errors.Join(unread, err)
				continue
			}
			streams = append(streams, l)
		}
		return nil
	})
	return streams, date, errors.Join(unread, err)
}

func (o Options) anyRetention() bool {
	for _, stream := range o.Streams {
		if stream.Retention != nil && *stream.Retention > 0 {
			return true
		}
	}
	return o.Retention > 0
}

// retention returns the time for which a stream's events are kept, or 0 for forever.
func (o Options) retention(stream string) time.Duration {
	if r := o.Streams[stream].Retention; r != nil {
		return *r
	}
	return o.Retention
}

// trim deletes a stream's old events, unless the stream was trimmed recently. It returns the number of deleted events.
func (s *Streams) trim(ctx context.Context, l listing, now time.Time) (removed int64, err error) {
	keep := s.options.retention(l.name)
	if keep == 0 {
		return 0, nil
	}
	s.mu.Lock()
	last := s.trimmed[l.name]
	s.mu.Unlock()
	if now.Sub(last) < min(max(minTrimInterval, keep/trimShare), maxTrimInterval) {
		return 0, nil
	}
	escaped, err := escapeName(l.name)
	if err != nil {
		return 0, err
	}
	removed, err = s.logOf(escaped, l).Trim(ctx, now.Add(-keep))
	if removed > 0 {
		zerolog.Ctx(ctx).Info().Str("stream", l.name).Int64("removed", removed).Msg("old events were deleted")
	}
	if err != nil {
		return removed, err
	}
	remember(s, s.trimmed, l.name, now)
	return removed, nil
}
