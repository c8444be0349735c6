package logtail

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"tablesweep/internal/action"
	"tablesweep/internal/input"
	"tablesweep/internal/key"
	"tablesweep/internal/problem"
	"tablesweep/internal/problem/secret"
	"tablesweep/internal/storage"
	"tablesweep/internal/stream/claim"
)

// emptyColumn marks the row of a deleted stream; see the package comment.
const emptyColumn = "Empty"

// StreamInfo describes a stream.
type StreamInfo struct {
	Name   string `json:"name"`
	Shards int    `json:"shards"` // the greatest number of shards that the stream ever had
}

// List returns the streams after a cursor, at most `top` of them (1 to MaxTop), in the order of their escaped names. The
// result `next` is the cursor for the next page, or "" after the last page. List costs one query, and one further query
// for each deleted stream.
func (s *Streams) List(ctx context.Context, top int, cursor string) (streams []StreamInfo, next string, err error) {
	if err := input.Top(top, MaxTop); err != nil {
		return nil, "", err
	}
	q := storage.Query{Range: key.Range{Partition: new(streamsPartition)}, Top: top}
	if q.Range.Low, err = readListCursor(cursor); err != nil {
		return nil, "", err
	}
	for {
		page, err := s.options.Table.Query(ctx, q)
		if err != nil {
			return nil, "", fmt.Errorf("the list of streams cannot be read: %w", err)
		}
		for i, row := range page.Entities() {
			info, exists, err := s.describe(ctx, row, page.Date)
			if err != nil {
				return nil, "", err
			}
			if !exists {
				continue
			}
			streams = append(streams, info)
			if last := i == len(page.Rows)-1 && page.Next == nil; len(streams) == top && !last {
				return streams, writeListCursor(row.Key.Row), nil
			}
		}
		if q.Token = page.Next; q.Token == nil {
			return streams, "", nil
		}
	}
}

// describe returns the stream that a row of the list describes. A deleted stream exists again if events were appended after its
// deletion.
func (s *Streams) describe(ctx context.Context, row storage.Entity, date time.Time) (info StreamInfo, exists bool, err error) {
	l, err := listingOf(row, date)
	if err == nil && l.empty {
		_, err = s.logOf(row.Key.Row, l).Newest(ctx, Span{}, 1, func(storage.Row) (bool, error) {
			exists = true
			return true, nil
		})
		if !exists {
			return StreamInfo{}, false, err
		}
	}
	return StreamInfo{l.name, l.shards}, err == nil, err
}

// The cursors of [Streams.List] begin with listCursor, which distinguishes them from other cursors.
const listCursor = "after "

func writeListCursor(escaped string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(listCursor + escaped))
}

// readListCursor returns the bound after the last stream of the previous page. If the cursor is "", it returns nil.
func readListCursor(cursor string) (*key.Bound, error) {
	if cursor == "" {
		return nil, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	after, ours := strings.CutPrefix(string(text), listCursor)
	if err != nil || !ours {
		return nil, problem.Invalidf("cursor", "is not a cursor that this list returned; leave it out to start from the beginning")
	}
	return &key.Bound{Key: after, Open: true}, nil
}

// Deleted is the result of a stream's deletion.
type Deleted struct {
	Events int64 `json:"deleted"`
	// Repeated is true if another try of the same request began before this try, or recorded its result before this try.
	// In both cases, Events counts only the events that this try has deleted.
	Repeated bool `json:"repeated,omitzero"`
}

// Delete deletes all events of a stream, and removes the stream from the list. Events that are appended during the deletion may stay.
// After an error, call Delete again. For a stream that is not listed, the error is NotFound.
//
// If `sent` contains an id, the deletion is carried out once. A repetition returns the first try's result. If the first try was
// interrupted, the repetition deletes the remaining events, but keeps events that were appended after the first try began.
func (s *Streams) Delete(ctx context.Context, stream string, sent claim.Sent) (Deleted, error) {
	escaped, err := escapeName(stream)
	if err != nil {
		return Deleted{}, err
	}
	claims, id := claim.Claims{Table: s.options.Table, Partition: claimsPartition}, sent.ID("delete "+escaped)
	var claimed claim.Claim
	if !id.None() {
		if claimed, err = claims.Take(ctx, id); err != nil {
			return Deleted{}, fmt.Errorf("the stream %q was not deleted: %w", stream, err)
		}
	}
	var done Deleted
	if claimed.Answer != "" {
		return done, json.Unmarshal([]byte(claimed.Answer), &done)
	}
	done.Repeated = claimed.Known
	if done.Events, err = s.deleteEvents(ctx, stream, escaped, claimed.Made); err != nil || id.None() {
		return done, err
	}
	answer, err := json.Marshal(done)
	kept := false
	if err == nil {
		kept, err = claims.Record(ctx, claimed, string(answer))
	}
	if err != nil { // a repetition will return the number of events that the repetition itself deletes
		zerolog.Ctx(ctx).Warn().Err(err).Str("stream", stream).Msg("the answer to a deletion was not stored; if the request is repeated, its answer will not count the events that are already deleted")
	}
	done.Repeated = done.Repeated || err == nil && !kept // if kept is false, another try has recorded its own answer, or the claim was deleted
	return done, nil
}

// deleteEvents deletes a stream's events, and the stream's notes of idempotency keys. If `limit` is not zero, it deletes
// only rows that were written before `limit`, by the service's clock. It returns the number of deleted events.
func (s *Streams) deleteEvents(ctx context.Context, stream, escaped string, limit time.Time) (removed int64, err error) {
	l, err := s.readListing(ctx, escaped)
	if err != nil {
		return 0, fmt.Errorf("the stream %q was not deleted: %w", stream, err)
	}
	if l.shards == 0 {
		return 0, problem.NotFoundf("", "there is no stream %s", secret.Name(stream))
	}
	older := func(row storage.Row) bool { return limit.IsZero() || row.Timestamp().Before(limit) }
	for _, shard := range s.logOf(escaped, l).Shards {
		n, err := action.DeleteFound(ctx, s.options.Table, storage.Query{Range: key.Range{Partition: new(string(shard))}}, older)
		if removed += n; err != nil {
			return removed, fmt.Errorf("the stream %q was not deleted completely; %d events were deleted before the error: %w", stream, removed, err)
		}
	}
	notes := oncePartition + escaped // if an append's note stayed, a retry of this append would insert the deleted events again, with their old ids
	if _, err := action.DeleteFound(ctx, s.options.Table, storage.Query{Range: key.Range{Partition: &notes}}, older); err != nil {
		return removed, fmt.Errorf("the stream %q was not deleted completely; the rows of its idempotency keys remain: %w", stream, err)
	}
	err = s.options.Table.Write(ctx, storage.Op{Kind: storage.Merge, IfMatch: l.etag, Row: storage.Entity{
		Key:        key.Key{Partition: streamsPartition, Row: escaped},
		Properties: []storage.Property{{Name: emptyColumn, Type: storage.Boolean, Value: jsontext.Value("true")}},
	}.Row()})
	s.forget(escaped)
	if overtaken := storage.HasCode(err, "UpdateConditionNotSatisfied"); overtaken { // a writer has added the stream to the list again
		err = nil
	}
	return removed, err
}

// logOf returns the log of a listed stream.
func (s *Streams) logOf(escaped string, l listing) Log {
	s.mu.Lock()
	sizes := s.sizes[escaped]
	s.mu.Unlock()
	if sizes == nil {
		sizes = new(Sizes)
		remember(s, s.sizes, escaped, sizes)
	}
	return Log{Table: s.options.Table, Shards: shardsOf(escaped, min(max(1, l.shards), maxShards)), Sizes: sizes}
}
