package logtail

import (
	"context"
	"fmt"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

// version is the version of the format that the package comment describes.
const version = 1

const (
	// knownTime is the time for which a reader may use the number of shards that it has read.
	knownTime = time.Minute
	// knownMargin is added to knownTime for writers, because the service's clock shows only seconds.
	knownMargin = 5 * time.Second
	// maxKnown limits the number of cached streams, because any caller can name new streams.
	maxKnown = 10_000
)

// listing is a stream's row in the list of streams.
type listing struct {
	name   string
	shards int // greatest number in any writer's settings; 0 if there is no row
	age    time.Duration
	etag   string
	empty  bool      // the stream was deleted; the next writer removes this mark
	readAt time.Time // our time directly before the row was read
}

func (s *Streams) readListing(ctx context.Context, escaped string) (listing, error) {
	var l listing
	sentAt, at := time.Now(), &key.Bound{Key: escaped}
	err := s.options.Table.All(ctx, storage.Query{Range: key.Range{Partition: new(streamsPartition), Low: at, High: at}}, func(p storage.Page) (err error) {
		for _, e := range p.Entities() {
			l, err = listingOf(e, p.Date)
		}
		return err
	})
	l.readAt = sentAt
	return l, err
}

func listingOf(e storage.Entity, date time.Time) (listing, error) {
	if v := e.Int("Version"); v != version {
		return listing{}, fmt.Errorf("stream %q has version %d of the log's format, but this program knows only version %d; use the version of this program that created the stream", e.Get("Name"), v, version)
	}
	return listing{name: e.Get("Name"), shards: int(e.Int("Shards")), empty: e.Get(emptyColumn) == "true", age: date.Sub(e.Timestamp), etag: e.ETag}, nil
}

// freshListing returns the cached listing of a stream if it is fresh, and otherwise reads the listing.
func (s *Streams) freshListing(ctx context.Context, escaped string) (listing, error) {
	s.mu.Lock()
	l, ok := s.known[escaped]
	s.mu.Unlock()
	if !ok || !isFresh(l.readAt) {
		var err error
		if l, err = s.readListing(ctx, escaped); err != nil {
			return listing{}, err
		}
		remember(s, s.known, escaped, l)
	}
	return l, nil
}

// remember stores `what`, a fact about the stream, in the map `in`, which must be a field of s. A full map is emptied
// before the new entry is added.
func remember[T any](s *Streams, in map[string]T, escaped string, what T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(in) >= maxKnown {
		clear(in)
	}
	in[escaped] = what
}

// isFresh reports whether less than knownTime has passed since sentAt, by both of the machine's clocks. The monotonic clock may
// stop while the machine sleeps, and the wall clock may be set back.
func isFresh(sentAt time.Time) bool {
	now := time.Now()
	wall := now.Round(0).Sub(sentAt.Round(0))
	return now.Sub(sentAt) < knownTime && wall >= 0 && wall < knownTime
}

// shardsToWrite returns the number of shards to which events may be written. Before the process's first write to the stream,
// shardsToWrite adds the stream to the list, or raises the number of shards in the list.
func (s *Streams) shardsToWrite(ctx context.Context, stream, escaped string) (int, error) {
	s.mu.Lock()
	n, ok := s.spread[escaped]
	s.mu.Unlock()
	if ok {
		return n, nil
	}
	want := max(1, s.options.Streams[stream].Shards)
	l, err := s.readListing(ctx, escaped)
	if err != nil {
		return 0, err
	}
	if l.shards < want || l.empty {
		want := max(want, l.shards)
		if err := s.writeListing(ctx, stream, escaped, want, l); err != nil {
			return 0, err
		}
	}
	if want > 1 && (l.shards < want || l.age < knownTime+knownMargin) {
		return 1, nil // some readers may still know only the first shard; the next call reads the row again
	}
	remember(s, s.spread, escaped, want)
	return want, nil
}

// writeListing inserts a stream's row, or replaces the row that the caller has read into `old`. If another writer has
// written the row since the caller's read, writeListing changes nothing and returns nil. If that writer's row has too
// few shards, the next call of shardsToWrite raises the number.
func (s *Streams) writeListing(ctx context.Context, stream, escaped string, shards int, old listing) error {
	op := storage.Op{Kind: storage.Insert, Row: storage.Entity{
		Key: key.Key{Partition: streamsPartition, Row: escaped},
		Properties: []storage.Property{
			storage.Int64Property("Version", version),
			storage.StringProperty("Name", stream),
			storage.Int64Property("Shards", int64(shards)),
		},
	}.Row()}
	if old.shards > 0 {
		op.Kind, op.IfMatch = storage.Replace, old.etag
	}
	err := s.options.Table.Write(ctx, op)
	if storage.Conflict(err) || storage.HasCode(err, "UpdateConditionNotSatisfied") {
		return nil
	}
	return err
}
