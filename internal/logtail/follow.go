package logtail

import (
	"context"
	"fmt"
	"slices"
	"time"

	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// maxBehind is the most events that a follower holds in memory.
const maxBehind = 100_000

// FollowOptions configure [Streams.Follow].
type FollowOptions struct {
	Newest int    // how many of the existing events to show first, if Since is ""
	Since  string // show the events newer than this time or id, as in [EventQuery], and none older
	// Window is how long after the time in its key an event may become readable. Later
	// ones are missed. Each poll reads the stream's last Window again. Default: [Window].
	Window time.Duration
	// Poll is the pause between two polls, default 1 s. While there are no new events, it
	// doubles up to MaxPoll, default 10 s.
	Poll, MaxPoll time.Duration
}

func (o FollowOptions) withDefaults() FollowOptions {
	for _, d := range []struct {
		value    *time.Duration
		standard time.Duration
	}{{&o.Window, Window}, {&o.Poll, time.Second}, {&o.MaxPoll, 10 * time.Second}} {
		if *d.value == 0 {
			*d.value = d.standard
		}
	}
	return o
}

// Follow calls show for events of a stream, and then for each one that is appended, until ctx
// ends or show fails. It shows every event that becomes readable within the window, once.
// Events of one poll are shown oldest first. It holds in memory the ids of one window's
// events, and the events to show next. If there are more than 100,000 of these, it fails.
func (s *Streams) Follow(ctx context.Context, stream string, o FollowOptions, show func(Event) error) error {
	f := follower{streams: s, stream: stream, options: o.withDefaults()}
	var err error
	if f.floor, err = s.bound("since", o.Since); err != nil {
		return err
	}
	newest := -1
	if f.floor == "" {
		newest = o.Newest
	}
	found, err := f.poll(ctx, f.floor, newest)
	pause := f.options.Poll
	for {
		if err != nil {
			return fmt.Errorf("follow stream %q: %w", stream, err)
		}
		for _, e := range slices.Backward(found) {
			if err := show(e); err != nil {
				return err
			}
		}
		if len(found) > 0 {
			pause = f.options.Poll
		}
		if !task.Sleep(ctx, pause) {
			return ctx.Err()
		}
		pause = min(2*pause, f.options.MaxPoll)
		found, err = f.poll(ctx, f.since(), -1)
	}
}

// follower polls a stream.
type follower struct {
	streams *Streams
	stream  string
	options FollowOptions
	floor   string              // older events are not wanted
	read    time.Time           // when the stream was last read, by the service's clock
	seen    map[string]struct{} // ids of the window's events
}

// window returns the bound that admits only events within the window.
func (f *follower) window() string { return Since(f.read.Add(-f.options.Window)) }

// since returns the bound of the next poll. It admits every event that was not readable at
// the last poll and is within its window.
func (f *follower) since() string {
	if f.floor != "" {
		return min(f.window(), f.floor) // the smaller bound is the newer
	}
	return f.window()
}

// poll returns the unseen events newer than the bound, newest first. If newest is not
// negative, it returns that many events, also from before the bound, and counts all others of
// the window as seen.
func (f *follower) poll(ctx context.Context, since string, newest int) ([]Event, error) {
	var m *merge
	err := f.streams.reading(ctx, f.stream, func(l Log) (err error) {
		m, err = l.merge(ctx, Span{Newer: since}, storage.PageRows)
		return err
	})
	if err != nil {
		return nil, err
	}
	if m.date.After(f.read) {
		f.read = m.date
	}
	var found []Event
	seen, window := map[string]struct{}{}, f.window()
	for {
		row, ok, err := m.next(ctx)
		if err != nil {
			return nil, err
		}
		enough := newest >= 0 && len(found) == newest
		if !ok || enough && row.Key.Row > window {
			f.seen = seen
			return found, nil
		}
		e, err := eventOf(row)
		if err != nil {
			return nil, err
		}
		if _, known := f.seen[e.ID]; !known && !enough {
			found = append(found, e)
		}
		if len(found) > maxBehind {
			return nil, fmt.Errorf("more than %d events at once; read them first without following", maxBehind)
		}
		if e.ID < window {
			seen[e.ID] = struct{}{}
		}
	}
}
