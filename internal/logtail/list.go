package logtail

import (
	"context"
	"fmt"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/storage"
)

// version is the format described in the package comment.
const version = 1

const (
	// knownTime is how long a reader relies on the number of shards that it has read.
	knownTime = time.Minute
	// knownMargin is added by writers, for the whole seconds of the service's clock.
	knownMargin = 5 * time.Second
	// maxKnown bounds the streams that are remembered: any caller can name new ones.
	maxKnown = 10_000
)

// listing is a stream's row in the list.
type listing struct {
	name   string
	shards int // largest number that a writer was configured with; 0 if there is no row
	age    time.Duration
	etag   string
	empty  bool      // it was deleted, and nobody who noticed has written since
	asked  time.Time // by our clock, before it was read
}

// lookUp reads a stream's row.
func (s *Streams) lookUp(ctx context.Context, escaped string) (listing, error) {
	l := listing{asked: time.Now()}
	partition, at := streamsPartition, &key.Bound{Key: escaped}
	err := s.options.Table.All(ctx, storage.Query{Range: key.Range{Partition: &partition, Low: at, High: at}}, func(p storage.Page) (err error) {
		for _, e := range p.Entities {
			asked := l.asked
			l, err = listingOf(e, p.Date)
			l.asked = asked
		}
		return err
	})
	return l, err
}

func listingOf(e storage.Entity, date time.Time) (listing, error) {
	if v := e.Int("Version"); v != version {
		return listing{}, fmt.Errorf("stream %q has version %d of the log's format, and this program knows version %d: use the program that made it", e.Get("Name"), v, version)
	}
	return listing{name: e.Get("Name"), shards: int(e.Int("Shards")), empty: e.Get(emptyColumn) == "true", age: date.Sub(e.Timestamp), etag: e.ETag}, nil
}

// toRead returns the listing of a stream, which is fresh.
func (s *Streams) toRead(ctx context.Context, escaped string) (listing, error) {
	s.mu.Lock()
	l, ok := s.known[escaped]
	s.mu.Unlock()
	if !ok || !fresh(l.asked) {
		var err error
		if l, err = s.lookUp(ctx, escaped); err != nil {
			return listing{}, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.known) >= maxKnown {
			clear(s.known)
		}
		s.known[escaped] = l
	}
	return l, nil
}

// fresh reports whether less than knownTime has passed, whether this machine slept, which
// the monotonic clock may not notice, or had its clock set back.
func fresh(asked time.Time) bool {
	now := time.Now()
	wall := now.Round(0).Sub(asked.Round(0))
	return now.Sub(asked) < knownTime && wall >= 0 && wall < knownTime
}

// shardsToWrite returns the number of shards that events may be written to. It lists
// the stream, or raises its number of shards, before the first event is written.
func (s *Streams) shardsToWrite(ctx context.Context, stream, escaped string) (int, error) {
	s.mu.Lock()
	n, ok := s.spread[escaped]
	s.mu.Unlock()
	if ok {
		return n, nil
	}
	want := max(1, s.options.Streams[stream].Shards)
	l, err := s.lookUp(ctx, escaped)
	if err != nil {
		return 0, err
	}
	if l.shards < want || l.empty {
		want := max(want, l.shards)
		if err := s.list(ctx, stream, escaped, want, l); err != nil {
			return 0, err
		}
	}
	if want > 1 && (l.shards < want || l.age < knownTime+knownMargin) {
		return 1, nil // the only one that all readers know; asked again next time
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.spread) >= maxKnown {
		clear(s.spread)
	}
	s.spread[escaped] = want
	return want, nil
}

// list writes a stream's row over the one that was read, or inserts it. That another was
// faster is no error: its row is as good, or is raised next time.
func (s *Streams) list(ctx context.Context, stream, escaped string, shards int, old listing) error {
	op := storage.Op{Kind: storage.Insert, Entity: storage.Entity{
		Key: key.Key{Partition: streamsPartition, Row: escaped},
		Properties: []storage.Property{
			storage.Int64Property("Version", version),
			storage.StringProperty("Name", stream),
			storage.Int64Property("Shards", int64(shards)),
		},
	}}
	if old.shards > 0 {
		op.Kind, op.IfMatch = storage.Replace, old.etag
	}
	err := s.options.Table.Write(ctx, op)
	if storage.Conflict(err) || storage.HasCode(err, "UpdateConditionNotSatisfied") {
		return nil
	}
	return err
}
