package logtail

import (
	"context"
	"fmt"

	"tablesweep/internal/problem"
	"tablesweep/internal/storage"
)

// Now as a place in a stream is behind all events that are there.
const Now = "now"

// Next is what After returns.
type Next struct {
	Events []Event // oldest first
	After  string  // the place behind these events
	More   bool    // there are more; ask at once
}

// After returns the events that follow a place in a stream: [Now], a time or id as in
// [Query.Since], or an earlier answer's place. It is for following a stream without
// keeping anything but the place. No event is missed that becomes readable within
// [Window] of the time in its key; one may be repeated if another comes late that is
// nearly as old. Each call reads the stream's last window, by one query for each
// 1,000 events of a shard.
func (s *Streams) After(ctx context.Context, stream, after string, top int) (Next, error) {
	if top < 1 || top > MaxTop {
		return Next{}, problem.Invalidf("top", "must be a number from 1 to %d", MaxTop)
	}
	place, err := s.place(after)
	if err != nil {
		return Next{}, err
	}
	var m *merge
	err = s.reading(ctx, stream, func(l Log) (err error) {
		m, err = l.merge(ctx, Span{Newer: place.floor}, storage.PageRows)
		return err
	})
	if err != nil {
		return Next{}, fmt.Errorf("read stream %q: %w", stream, err)
	}
	settled := Since(m.date.Add(-Window))
	sort := sorter{position: place, top: top, at: -1}
	var taken []placed // for given, with Now
	for n := 0; ; n++ {
		row, ok, err := m.next(ctx)
		if err != nil {
			return Next{}, fmt.Errorf("read stream %q: %w", stream, err)
		}
		if !ok || after == Now && row.Key.Row >= settled {
			break
		}
		e, err := eventOf(row)
		if err != nil {
			return Next{}, fmt.Errorf("read stream %q: %w", stream, err)
		}
		switch {
		case n == maxBehind:
			return Next{}, problem.Conflictf("after", "more than %d events follow: read them with since, and start again with after=%s", maxBehind, Now)
		case after == Now:
			taken = append(taken, placed{e.ID, true})
		default:
			sort.take(e)
		}
	}
	if after == Now {
		return Next{Events: []Event{}, After: positionAfter(taken, settled).String()}, nil
	}
	events, place := sort.next(settled)
	return Next{Events: events, After: place.String(), More: sort.more}, nil
}

// place returns the position that a caller means.
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
