package logtail

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	// startRead is how far before now a follower reads that starts now.
	startRead = 2 * time.Second
)

var errBehind = fmt.Errorf("more than %d events follow", maxBehind)

// NextEvents are the events behind a position in a stream.
type NextEvents struct {
	Events []Event // in the order of their ids, oldest first
	After  string  // the position behind them
	More   bool    // there are more; ask at once
}

// After returns the events behind a position in a stream: [Now], a time or id as in
// [EventQuery.Since], or the position that an earlier call returned. A follower needs to keep
// nothing but the position. It gets every event that is written within a minute of the time in its
// id. Events come in the order in which they were written, and those of one answer in the order
// of their ids. If more than 100,000 events follow the position, the error is a [problem.Conflict].
//
// A call makes one query for each 1,000 events of a shard that the caller has not got yet, however small top
// is, with up to 200 from before that, or those of 0.2 s if these are more. The service finds them
// among all events with ids from a minute before the last call on, since it has no index of Timestamps.
func (s *Streams) After(ctx context.Context, stream, after string, top int) (NextEvents, error) {
	if err := input.Top(top, MaxTop); err != nil {
		return NextEvents{}, err
	}
	next, _, err := s.after(ctx, stream, after, top)
	if errors.Is(err, errBehind) {
		err = problem.Conflictf("after", "%v; read them with since, and start again with after=%s", errBehind, Now)
	}
	return next, err
}

// after does what After does, for any top. It also returns all events that it has read.
func (s *Streams) after(ctx context.Context, stream, after string, top int) (NextEvents, []arrival, error) {
	if after == Now {
		return s.start(ctx, stream)
	}
	from, err := s.position(after)
	if err != nil {
		return NextEvents{}, nil, err
	}
	rows, known, err := s.arrivals(ctx, stream, from)
	if err != nil {
		return NextEvents{}, nil, err
	}
	from.settle(rows)
	events, more := wanted(rows, top)
	return NextEvents{events, from.after(rows, known).String(), more}, rows, nil
}

// start returns the position behind all events that a stream has now, and those that it has read.
func (s *Streams) start(ctx context.Context, stream string) (NextEvents, []arrival, error) {
	escaped, err := escapeName(stream)
	if err == nil {
		_, err = s.toRead(ctx, escaped) // or else the service's time may not be known
	}
	if err != nil {
		return NextEvents{}, nil, err
	}
	for now := s.now(); ; {
		at := now.Add(-startRead)
		from := position{newer: Since(at.Add(-window)), floor: ticksOf(at)}
		rows, known, err := s.arrivals(ctx, stream, from)
		if err != nil {
			return NextEvents{}, nil, err
		}
		if now = known; at.After(known.Add(-settling)) { // the service's clock was set, or ours
			continue
		}
		for i := range rows {
			rows[i].given = true
		}
		return NextEvents{After: from.after(rows, known).String()}, rows, nil
	}
}

// arrivals reads the rows that a position leaves open, newest first. All that were written until known
// are among them.
func (s *Streams) arrivals(ctx context.Context, stream string, p position) (rows []arrival, known time.Time, err error) {
	span := Span{Newer: p.newer}
	if p.floor > 0 {
		span.Since = p.floor.time()
	}
	m, err := s.read(ctx, stream, span, storage.PageRows)
	if err != nil {
		return nil, time.Time{}, err
	}
	n := 0
	for row, err := range m.rows(ctx) {
		a := arrival{place: place{ticksOf(row.Timestamp), row.Key.Row}}
		if err == nil {
			a.event, err = eventOf(row)
		}
		if n++; err == nil && n > maxBehind {
			err = errBehind
		}
		if err != nil {
			return nil, time.Time{}, fmt.Errorf("read stream %q: %w", stream, err)
		}
		if a.written >= p.floor {
			rows = append(rows, a)
		}
	}
	slices.SortFunc(rows, func(a, b arrival) int { return a.compare(b.place) })
	return rows, m.known, nil
}

// position reads what callers send as after, but not [Now].
func (s *Streams) position(after string) (position, error) {
	if isPosition(after) {
		return parsePosition(after)
	}
	newer, err := s.bound("after", after)
	if after == "" || err != nil {
		return position{}, errNoPosition
	}
	return position{newer: newer}, nil
}
