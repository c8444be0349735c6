package logtail

import (
	"context"
	"errors"
	"fmt"

	"tablesweep/internal/input"
	"tablesweep/internal/problem"
	"tablesweep/internal/storage"
)

// Now is the position behind all events that a stream has at this moment.
const Now = "now"

// maxBehind is the most events that may follow a position. A follower holds them in memory.
const maxBehind = 100_000

// errBehind means that more than maxBehind events follow a position.
var errBehind = fmt.Errorf("more than %d events follow", maxBehind)

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
// the stream's last minute, with one query for each 1,000 events of a shard.
func (s *Streams) After(ctx context.Context, stream, after string, top int) (NextEvents, error) {
	if err := input.Top(top, MaxTop); err != nil {
		return NextEvents{}, err
	}
	next := NextEvents{Events: []Event{}}
	from, err := s.position(after)
	if err != nil {
		return NextEvents{}, err
	}
	var at position
	if after == Now {
		_, at, err = s.present(ctx, stream)
	} else {
		next.Events, at, next.More, err = s.behind(ctx, stream, from, top)
	}
	switch {
	case errors.Is(err, errBehind):
		return NextEvents{}, problem.Conflictf("after", "%v; read them with since, and start again with after=%s", err, Now)
	case err != nil:
		return NextEvents{}, fmt.Errorf("read stream %q: %w", stream, err)
	}
	next.After = at.String()
	return next, nil
}

// position reads what callers send as after.
func (s *Streams) position(after string) (position, error) {
	switch {
	case after == Now:
		return position{}, nil
	case isPosition(after):
		return parsePosition(after)
	}
	floor, err := s.bound("after", after)
	if after == "" || err != nil {
		return position{}, errNoPosition
	}
	return position{floor: floor}, nil
}

// behind returns at most top events behind a position, the position behind them, and whether
// there are more.
func (s *Streams) behind(ctx context.Context, stream string, from position, top int) (events []Event, at position, more bool, err error) {
	r, err := s.recent(ctx, stream, from.floor)
	if err != nil {
		return nil, position{}, false, err
	}
	sort := sorter{position: from, top: top, at: -1}
	for {
		e, ok, err := r.next(ctx)
		if err == nil && ok {
			err = sort.take(e)
		}
		if err != nil {
			return nil, position{}, false, err
		}
		if !ok {
			events, at, err = sort.next(r.settled)
			return events, at, sort.more, err
		}
	}
}

// present returns the position behind all events that the stream has, and those of them that
// are in the last minute.
func (s *Streams) present(ctx context.Context, stream string) (have []delivery, at position, err error) {
	r, err := s.recent(ctx, stream, Since(s.options.Now().Add(-2*window))) // the service's clock decides
	if err != nil {
		return nil, position{}, err
	}
	for {
		e, ok, err := r.next(ctx)
		if err != nil {
			return nil, position{}, err
		}
		if !ok || e.ID >= r.settled {
			return have, positionAfter(have, r.settled), nil
		}
		have = append(have, delivery{e.ID, true})
	}
}

// recent are the events of a stream that are newer than a bound, newest first.
type recent struct {
	*merge
	settled string // no more events older than this bound can appear
}

func (s *Streams) recent(ctx context.Context, stream, newer string) (recent, error) {
	var m *merge
	err := s.reading(ctx, stream, func(l Log) (err error) {
		m, err = l.merge(ctx, Span{Newer: newer}, storage.PageRows)
		return err
	})
	if err != nil {
		return recent{}, err
	}
	return recent{m, Since(m.date.Add(-window))}, nil
}

// next takes the newest remaining event. ok is false if there is none.
func (r recent) next(ctx context.Context) (e Event, ok bool, err error) {
	row, ok, err := r.merge.next(ctx)
	if ok && err == nil {
		e, err = eventOf(row)
	}
	return e, ok, err
}
