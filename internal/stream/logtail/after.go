package logtail

import (
	"context"
	"fmt"

	"tablesweep/internal/input"
	"tablesweep/internal/storage"
)

// After calls the function `take` with each event that follows a position in a stream; see [Feed.After]. The position may also be an id or a time,
// as in [EventQuery.Since]. The events come in the order of their ids, oldest first. A follower can miss an event only if the event is written more
// than a minute after the time in its id. The Rows of the result are empty, because the function `take` has received the events.
func (s *Streams) After(ctx context.Context, stream, after string, top int, take func(Event)) (Next, error) {
	if err := input.Top(top, MaxTop); err != nil {
		return Next{}, err
	}
	next, _, err := s.after(ctx, stream, after, top, func(e Event) error {
		take(e)
		return nil
	})
	return next, tooFar(err)
}

// after is like [Streams.After], but accepts any value of `top`, and also returns all rows that it has read. If `take`
// returns an error, the call ends with this error.
func (s *Streams) after(ctx context.Context, stream, after string, top int, take func(Event) error) (Next, []arrival, error) {
	escaped, err := escapeName(stream)
	if err == nil && after == Now {
		_, err = s.freshListing(ctx, escaped) // the answer contains the service's time
	}
	if err != nil {
		return Next{}, nil, err
	}
	feed := Feed{Log: Log{Table: s.options.Table}, Now: s.now, merge: func(ctx context.Context, span Span) (*merge, error) {
		return s.read(ctx, stream, span, storage.PageRows)
	}}
	next, read, err := feed.after(ctx, after, top)
	if err != nil {
		return Next{}, nil, err
	}
	err = next.Each(func(row storage.Row) error {
		e, err := eventOf(row)
		if err != nil {
			return fmt.Errorf("the stream %q cannot be read: %w", stream, err)
		}
		return take(e)
	})
	return next, read, err
}
