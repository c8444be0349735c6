package logtail

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tablesweep/internal/input"
	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/secret"
	"tablesweep/internal/storage"
)

// emptyColumn marks the row of a deleted stream. The row stays: running writers do not look
// it up again, and readers need its number of shards.
const emptyColumn = "Empty"

// StreamInfo describes a stream.
type StreamInfo struct {
	Name   string `json:"name"`
	Shards int    `json:"shards"` // the most partitions that it was ever spread over
}

// List returns at most top streams (1 to MaxTop) behind cursor, in the order of their names as
// keys. next is the cursor for the next page, "" after the last one. It costs one query, and
// one more for each deleted stream.
func (s *Streams) List(ctx context.Context, top int, cursor string) (streams []StreamInfo, next string, err error) {
	if err := input.Top(top, MaxTop); err != nil {
		return nil, "", err
	}
	partition := streamsPartition
	q := storage.Query{Range: key.Range{Partition: &partition}, Top: top}
	if q.Range.Low, err = readListCursor(cursor); err != nil {
		return nil, "", err
	}
	for {
		page, err := s.options.Table.Query(ctx, q)
		if err != nil {
			return nil, "", fmt.Errorf("list streams: %w", err)
		}
		for i, row := range page.Entities {
			info, exists, err := s.describe(ctx, row, page.Date)
			if err != nil {
				return nil, "", err
			}
			if !exists {
				continue
			}
			streams = append(streams, info)
			if last := i == len(page.Entities)-1 && page.Next == nil; len(streams) == top && !last {
				return streams, writeListCursor(row.Key.Row), nil
			}
		}
		if q.Token = page.Next; q.Token == nil {
			return streams, "", nil
		}
	}
}

// describe returns what a row of the list of streams describes. A deleted stream exists if
// events were appended to it since.
func (s *Streams) describe(ctx context.Context, row storage.Entity, date time.Time) (info StreamInfo, exists bool, err error) {
	l, err := listingOf(row, date)
	if err == nil && l.empty {
		var tail Tail
		if tail, err = s.logOf(row.Key.Row, l).Newest(ctx, Span{}, 1); len(tail.Rows) == 0 {
			return StreamInfo{}, false, err
		}
	}
	return StreamInfo{l.name, l.shards}, err == nil, err
}

// listCursor is the start of [Streams.List]'s cursors. It tells them from others.
const listCursor = "after "

func writeListCursor(escaped string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(listCursor + escaped))
}

// readListCursor returns the bound behind the last stream of the page before, nil for "".
func readListCursor(cursor string) (*key.Bound, error) {
	if cursor == "" {
		return nil, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	after, ours := strings.CutPrefix(string(text), listCursor)
	if err != nil || !ours {
		return nil, problem.Invalidf("cursor", "is not one that this list returned")
	}
	return &key.Bound{Key: after, Open: true}, nil
}

// Delete deletes all events of a stream, and takes it off the list. Events that are appended
// meanwhile may stay. It returns how many it has deleted. After an error, retry. A stream
// that is not listed is NotFound.
func (s *Streams) Delete(ctx context.Context, stream string) (removed int64, err error) {
	escaped, err := escapeName(stream)
	if err != nil {
		return 0, err
	}
	l, err := s.lookUp(ctx, escaped)
	if err != nil {
		return 0, fmt.Errorf("delete stream %q: %w", stream, err)
	}
	if l.shards == 0 {
		return 0, problem.NotFoundf("", "there is no stream %s", secret.Name(stream))
	}
	log := s.logOf(escaped, l)
	tail, err := log.Newest(ctx, Span{}, 1)
	if err != nil {
		return 0, fmt.Errorf("delete stream %q: %w", stream, err)
	}
	if len(tail.Rows) > 0 {
		newest, err := eventOf(tail.Rows[0])
		if err != nil {
			return 0, fmt.Errorf("delete stream %q: %w", stream, err)
		}
		until := s.now()
		if newest.Time.After(until) {
			until = newest.Time
		}
		if removed, err = log.Trim(ctx, until.Add(2*key.Tick)); err != nil {
			return removed, fmt.Errorf("delete stream %q, after %d events were removed: %w", stream, removed, err)
		}
	}
	notes := oncePartition + escaped // or else a retry would bring its events back
	if _, err := remove(ctx, s.options.Table, storage.Query{Range: key.Range{Partition: &notes}}); err != nil {
		return removed, fmt.Errorf("delete stream %q: its notes of idempotency keys: %w", stream, err)
	}
	err = s.options.Table.Write(ctx, storage.Op{Kind: storage.Merge, IfMatch: l.etag, Entity: storage.Entity{
		Key:        key.Key{Partition: streamsPartition, Row: escaped},
		Properties: []storage.Property{{Name: emptyColumn, Type: storage.Boolean, Value: jsontext.Value("true")}},
	}})
	s.forget(escaped)
	if overtaken := storage.HasCode(err, "UpdateConditionNotSatisfied"); overtaken { // a writer has listed it again
		err = nil
	}
	return removed, err
}

// logOf returns a listed stream as a log.
func (s *Streams) logOf(escaped string, l listing) Log {
	return Log{Table: s.options.Table, Partitions: partitions(escaped, min(max(1, l.shards), maxShards))}
}
