package logtail

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/storage"
)

// emptyColumn marks a stream's row after the stream was deleted. The row stays, since
// writers that are running don't look for it again: it is what leads readers to shards.
const emptyColumn = "Empty"

// StreamInfo describes a stream.
type StreamInfo struct {
	Name   string `json:"name"`
	Shards int    `json:"shards"` // partitions that it was ever spread over
}

// listCursor begins the cursors of [Streams.List], so that others are told from them.
const listCursor = "after "

// List returns streams in the order of their names as keys, top of them at most: 1 to
// MaxTop. It goes on behind cursor, if that is not "". next is the cursor to go on with,
// "" at the end. It costs one query, and more for streams that were deleted.
func (s *Streams) List(ctx context.Context, top int, cursor string) (streams []StreamInfo, next string, err error) {
	if top < 1 || top > MaxTop {
		return nil, "", problem.Invalidf("top", "must be a number from 1 to %d", MaxTop)
	}
	partition := streamsPartition
	q := storage.Query{Range: key.Range{Partition: &partition}, Top: top}
	if cursor != "" {
		text, err := base64.RawURLEncoding.DecodeString(cursor)
		after, ours := strings.CutPrefix(string(text), listCursor)
		if err != nil || !ours {
			return nil, "", problem.Invalidf("cursor", "is not one that this list returned")
		}
		q.Range.Low = &key.Bound{Key: after, Open: true}
	}
	for {
		page, err := s.options.Table.Query(ctx, q)
		if err != nil {
			return nil, "", fmt.Errorf("list streams: %w", err)
		}
		for i, row := range page.Entities {
			l, err := listingOf(row, page.Date)
			if err != nil {
				return nil, "", err
			}
			if l.empty {
				tail, err := s.logOf(row.Key.Row, l).Newest(ctx, Span{}, 1)
				if err != nil {
					return nil, "", err
				}
				if len(tail.Rows) == 0 {
					continue
				}
			}
			streams = append(streams, StreamInfo{l.name, l.shards})
			if len(streams) == top && (i < len(page.Entities)-1 || page.Next != nil) {
				return streams, base64.RawURLEncoding.EncodeToString([]byte(listCursor + row.Key.Row)), nil
			}
		}
		if q.Token = page.Next; q.Token == nil {
			return streams, "", nil
		}
	}
}

// Delete removes all events of a stream, and takes it off the list. What is appended
// meanwhile may stay or not. It returns how many events it removed; after an error, ask
// again. A stream that isn't listed is NotFound.
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
		return 0, problem.NotFoundf("", "there is no stream %q", stream)
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
		until := s.options.Now()
		if newest.Time.After(until) {
			until = newest.Time
		}
		if removed, err = log.Trim(ctx, until.Add(2*tick)); err != nil {
			return removed, fmt.Errorf("delete stream %q, after %d events were removed: %w", stream, removed, err)
		}
	}
	err = s.options.Table.Write(ctx, storage.Op{Kind: storage.Merge, IfMatch: l.etag, Entity: storage.Entity{
		Key:        key.Key{Partition: streamsPartition, Row: escaped},
		Properties: []storage.Property{{Name: emptyColumn, Type: storage.Boolean, Value: jsontext.Value("true")}},
	}})
	s.forget(escaped)
	if overtaken := storage.HasCode(err, "UpdateConditionNotSatisfied"); overtaken { // a writer has listed it anew
		err = nil
	}
	return removed, err
}

// logOf returns the log that a listed stream is.
func (s *Streams) logOf(escaped string, l listing) Log {
	return Log{Table: s.options.Table, Partitions: partitions(escaped, min(max(1, l.shards), maxShards))}
}
