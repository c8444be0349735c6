package logtail

import (
	"context"
	"fmt"

	"tablesweep/internal/input"
	"tablesweep/internal/storage"
)

// NextEvents are the events behind a position in a stream.
type NextEvents struct {
	Events []Event // in the order of their ids, oldest first
	After  string  // the position behind them
	More   bool    // there are more; ask at once
}

// After returns the events behind a position in a stream, as [Feed.After] does: with an id or a time as in
// [EventQuery.Since]. A follower gets every event that is written within a minute of the time in its id.
func (s *Streams) After(ctx context.Context, stream, after string, top int) (NextEvents, error) {
	if err := input.Top(top, MaxTop); err != nil {
		return NextEvents{}, err
	}
	next, _, err := s.after(ctx, stream, after, top)
	return next, tooFar(err)
}

// after does what After does, for any top. It also returns all rows that it has read.
func (s *Streams) after(ctx context.Context, stream, after string, top int) (NextEvents, []arrival, error) {
	escaped, err := escapeName(stream)
	if err == nil && after == Now {
		_, err = s.toRead(ctx, escaped) // or else the service's time may not be known
	}
	if err != nil {
		return NextEvents{}, nil, err
	}
	feed := Feed{Now: s.now, merge: func(ctx context.Context, span Span) (*merge, error) {
		return s.read(ctx, stream, span, storage.PageRows)
	}}
	next, read, err := feed.after(ctx, after, top)
	if err != nil {
		return NextEvents{}, nil, err
	}
	found := NextEvents{After: next.After, More: next.More}
	for _, row := range next.Rows {
		e, err := eventOf(row)
		if err != nil {
			return NextEvents{}, nil, fmt.Errorf("read stream %q: %w", stream, err)
		}
		found.Events = append(found.Events, e)
	}
	return found, read, nil
}
