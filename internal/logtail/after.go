package logtail

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tablesweep/internal/input"
	"tablesweep/internal/problem"
	"tablesweep/internal/storage"
)

// Now is the position behind all events that a stream has at this moment.
const Now = "now"

const (
	// maxBehind is the most events that may follow a position. A follower holds them in memory.
	maxBehind = 100_000
	// maxRecent is the most events that one call reads, with those that the follower has got. It
	// bounds the call's time and memory, and the length of a position.
	maxRecent = 300_000
)

var (
	errBehind = fmt.Errorf("more than %d events follow", maxBehind)
	errBusy   = fmt.Errorf("the stream has more than %d events of the last minute or later", maxRecent)
)

// NextEvents are the events behind a position in a stream.
type NextEvents struct {
	Events []Event // oldest first
	After  string  // the position behind them
	More   bool    // there are more; ask at once
}

// After returns the events behind a position in a stream: [Now], a time or id as in
// [EventQuery.Since], or the position that an earlier call returned. A follower needs to keep
// nothing but the position. It gets every event that becomes readable within a minute of the
// time in its key. A late event may bring some again that are nearly as old. Each call reads
// the stream's last minute, with one query for each 1,000 events of a shard. If more than 100,000
// events follow the position, or 300,000 are so young, the error is a [problem.Conflict].
func (s *Streams) After(ctx context.Context, stream, after string, top int) (NextEvents, error) {
	if err := input.Top(top, MaxTop); err != nil {
		return NextEvents{}, err
	}
	next, _, err := s.after(ctx, stream, after, top)
	switch {
	case errors.Is(err, errBehind):
		err = problem.Conflictf("after", "%v; read them with since, and start again with after=%s", errBehind, Now)
	case errors.Is(err, errBusy):
		err = problem.Conflictf("after", "%v; read them with since", errBusy)
	}
	return next, err
}

// after does what After does, for any top. It also returns all events that it has read.
func (s *Streams) after(ctx context.Context, stream, after string, top int) (NextEvents, []delivery, error) {
	from, err := s.position(after)
	if err != nil {
		return NextEvents{}, nil, err
	}
	m, err := s.read(ctx, stream, Span{Newer: from.floor}, storage.PageRows)
	if err != nil {
		return NextEvents{}, nil, err
	}
	sort := sorter{position: from, top: top, none: after == Now, at: -1}
	settled := Since(m.date.Add(-window)) // no more events older than this bound can appear
	for row, err := range m.rows(ctx) {
		if err == nil && after == Now && row.Key.Row >= settled {
			break
		}
		if err == nil {
			err = sort.take(row)
		}
		if err != nil {
			return NextEvents{}, nil, fmt.Errorf("read stream %q: %w", stream, err)
		}
	}
	events, at, more, err := sort.next(settled)
	if err != nil {
		return NextEvents{}, nil, fmt.Errorf("read stream %q: %w", stream, err)
	}
	return NextEvents{Events: events, After: at.String(), More: more}, sort.events, nil
}

// position reads what callers send as after.
func (s *Streams) position(after string) (position, error) {
	switch {
	case after == Now:
		return position{floor: Since(time.Time{})}, nil // after ends at the settled events
	case isPosition(after):
		return parsePosition(after)
	}
	floor, err := s.bound("after", after)
	if after == "" || err != nil {
		return position{}, errNoPosition
	}
	return position{floor: floor}, nil
}
