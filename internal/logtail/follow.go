package logtail

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"tablesweep/internal/task"
)

// A follower polls every minPoll. While there are no new events, the pause between two polls
// doubles up to maxPoll.
const (
	minPoll = time.Second
	maxPoll = 10 * time.Second
)

// FollowOptions configure [Streams.Follow].
type FollowOptions struct {
	Newest int    // how many of the existing events to show first, if Since is ""
	Since  string // show the events newer than this time or id, as in [EventQuery], and none older
}

// Follow calls show for events of a stream, and then for each one that is appended, until ctx
// ends or show fails. It shows every event that becomes readable within a minute of the time in
// its key, once. Events of one poll are shown oldest first. It holds in memory the ids of one
// minute's events, and the events to show next. If there are more than 100,000 of these, it
// fails.
//
// It polls as callers of After do. It also remembers what it has shown, and leaves out what a
// late event brings again.
func (s *Streams) Follow(ctx context.Context, stream string, o FollowOptions, show func(Event) error) error {
	floor, err := s.bound("since", o.Since)
	if err != nil {
		return err
	}
	f := follower{Streams: s, stream: stream, at: position{floor: floor}, shown: map[string]bool{}}
	if floor == "" {
		err = f.begin(ctx, o.Newest)
	}
	for pause := minPoll; ; pause = min(2*pause, maxPoll) {
		if err == nil {
			err = f.poll(ctx)
		}
		if errors.Is(err, errBehind) {
			err = fmt.Errorf("%w; read them first without following", err)
		}
		if err != nil {
			return fmt.Errorf("follow stream %q: %w", stream, err)
		}
		if len(f.next) > 0 {
			pause = minPoll
		}
		for _, e := range f.next {
			if err := show(e); err != nil {
				return err
			}
		}
		f.next = nil
		if !task.Sleep(ctx, pause) {
			return ctx.Err()
		}
	}
}

// follower follows a stream by its positions.
type follower struct {
	*Streams
	stream string
	at     position
	shown  map[string]bool // ids of the events that were shown or existed before, within the window
	next   []Event         // to be shown, oldest first
}

// begin takes the newest events to be shown first. All others that exist count as shown.
func (f *follower) begin(ctx context.Context, newest int) error {
	have, at, err := f.present(ctx, f.stream)
	if err != nil {
		return err
	}
	f.at = at
	for _, e := range have {
		f.shown[e.id] = true
	}
	if newest == 0 {
		return nil
	}
	var tail Tail
	err = f.reading(ctx, f.stream, func(l Log) (err error) { // behind present: what comes between the two is not missed
		tail, err = l.Newest(ctx, Span{}, newest)
		return err
	})
	if err != nil {
		return err
	}
	for _, row := range slices.Backward(tail.Rows) {
		e, err := eventOf(row)
		if err != nil {
			return err
		}
		f.next = append(f.next, e)
		f.shown[e.ID] = true
	}
	return nil
}

// poll takes the events behind the position that were not shown yet.
func (f *follower) poll(ctx context.Context) error {
	events, at, _, err := f.behind(ctx, f.stream, f.at, maxBehind)
	if err != nil {
		return err
	}
	f.at = at
	for _, e := range events {
		if !f.shown[e.ID] {
			f.next = append(f.next, e)
			f.shown[e.ID] = true
		}
	}
	maps.DeleteFunc(f.shown, func(id string, _ bool) bool { return id >= at.floor }) // none of them comes again
	return nil
}
