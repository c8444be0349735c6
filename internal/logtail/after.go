package logtail

import (
	"context"
	"fmt"

	"tablesweep/internal/input"
	"tablesweep/internal/problem"
	"tablesweep/internal/storage"
)

// Now is the place behind all events that a stream has at this moment.
const Now = "now"

// NextEvents are the events behind a place in a stream.
type NextEvents struct {
	Events []Event // oldest first
	After  string  // the place behind them
	More   bool    // there are more; ask at once
}

// After returns the events behind a place in a stream: [Now], a time or id as in
// [EventQuery.Since], or the place that an earlier call returned. A follower needs to keep
// nothing but the place. It gets every event that becomes readable within [Window] of the
// time in its key. A late event may bring some again that are nearly as old. Each call reads
// the stream's last window, with one query for each 1,000 events of a shard.
func (s *Streams) After(ctx context.Context, stream, after string, top int) (NextEvents, error) {
	if err := input.Top(top, MaxTop); err != nil {
		return NextEvents{}, err
	}
	place, err := s.place(after)
	if err != nil {
		return NextEvents{}, err
	}
	var m *merge
	err = s.reading(ctx, stream, func(l Log) (err error) {
		m, err = l.merge(ctx, Span{Newer: place.floor}, storage.PageRows)
		return err
	})
	if err != nil {
		return NextEvents{}, fmt.Errorf("read stream %q: %w", stream, err)
	}
	settled := Since(m.date.Add(-Window))
	sort := sorter{position: place, top: top, at: -1}
	var taken []placed // for given, with Now
	for n := 0; ; n++ {
		row, ok, err := m.next(ctx)
		if err != nil {
			return NextEvents{}, fmt.Errorf("read stream %q: %w", stream, err)
		}
		if !ok || after == Now && row.Key.Row >= settled {
			break
		}
		e, err := eventOf(row)
		if err != nil {
			return NextEvents{}, fmt.Errorf("read stream %q: %w", stream, err)
		}
		switch {
		case n == maxBehind:
			return NextEvents{}, problem.Conflictf("after", "more than %d events follow; read them with since, and start again with after=%s", maxBehind, Now)
		case after == Now:
			taken = append(taken, placed{e.ID, true})
		default:
			sort.take(e)
		}
	}
	if after == Now {
		return NextEvents{Events: []Event{}, After: positionAfter(taken, settled).String()}, nil
	}
	events, place := sort.next(settled)
	return NextEvents{Events: events, After: place.String(), More: sort.more}, nil
}

// place reads a place.
func (s *Streams) place(after string) (position, error) {
	switch {
	case after == Now:
		return position{floor: Since(s.options.Now().Add(-2 * Window))}, nil // the service's clock decides
	case isPosition(after):
		return parsePosition(after)
	}
	floor, err := s.bound("after", after)
	if after == "" || err != nil {
		return position{}, errNoPosition
	}
	return position{floor: floor}, nil
}
