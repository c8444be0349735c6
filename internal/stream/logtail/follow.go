package logtail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"tablesweep/internal/task"
)

// After a poll with new events, the pause is minPoll. After each poll without new events, the pause doubles, up to
// maxPoll.
const (
	minPoll = time.Second
	maxPoll = 10 * time.Second
)

// FollowOptions configure [Streams.Follow].
type FollowOptions struct {
	Newest int    // number of existing events to show first, if Since is ""
	Since  string // show only events newer than this time or id, as in [EventQuery]
}

// Follow calls the function `show` for existing events of a stream, and then for each new event, until ctx ends or `show` fails. If
// an event is written within a minute of the time in its id, Follow shows it exactly once. Events of one poll are shown oldest
// first. Follow fails with the same errors as After.
//
// If a late event appears, After returns some events again. Follow remembers the events that it has read, and does not
// show them again.
func (s *Streams) Follow(ctx context.Context, stream string, o FollowOptions, show func(Event) error) error {
	if _, err := bound("since", o.Since, s.now()); err != nil {
		return err
	}
	after := cmp.Or(o.Since, Now)
	shown := map[string]bool{} // ids of recent events that were shown, or existed at the start
	for pause := minPoll; ; pause = min(2*pause, maxPoll) {
		now := map[string]bool{} // ids of the events that this poll has read; the next poll may read these events again, but no earlier events
		showNew := func(e Event) error {
			if now[e.ID] = true; shown[e.ID] {
				return nil
			}
			pause = minPoll
			return show(e)
		}
		next, read, err := s.after(ctx, stream, after, maxBehind, showNew)
		if errors.Is(err, errBehind) {
			err = fmt.Errorf("%w; read them before you follow the stream", err)
		}
		if err == nil && after == Now && o.Newest > 0 { // the next poll continues after the rows that s.after has read, so it also finds events that are written while showNewest runs
			err = s.showNewest(ctx, stream, o.Newest, showNew)
		}
		if err != nil {
			return err
		}
		for _, e := range read {
			now[e.id] = now[e.id] || e.given
		}
		shown = now
		after = next.After
		if !next.More && !task.Sleep(ctx, pause) {
			return ctx.Err()
		}
	}
}

// showNewest calls `show` with the newest n events of a stream, oldest first.
func (s *Streams) showNewest(ctx context.Context, stream string, n int, show func(Event) error) error {
	var events []Event
	_, err := s.Read(ctx, stream, EventQuery{Top: n}, func(e Event) bool {
		events = append(events, e)
		return true
	})
	for _, e := range slices.Backward(events) {
		if err == nil {
			err = show(e)
		}
	}
	return err
}
