package logtail_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/storage"
	"tablesweep/internal/stream/logtail"
)

// watch follows a stream in the background. The function `stop` ends this, and returns the texts shown until then.
func (w *world) watch(o logtail.FollowOptions) (stop func() []string) {
	return w.watchBy(w.streams(logtail.Options{}), o)
}

func (w *world) watchBy(s *logtail.Streams, o logtail.FollowOptions) (stop func() []string) {
	ctx, cancel := context.WithCancel(w.Context())
	var mu sync.Mutex
	var shown []string
	ended := make(chan error, 1)
	go func() {
		ended <- s.Follow(ctx, "s", o, func(e logtail.Event) error {
			mu.Lock()
			defer mu.Unlock()
			shown = append(shown, text(e))
			return nil
		})
	}()
	return func() []string {
		w.Helper()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			w.Error(err)
		}
		return shown
	}
}

// late inserts an event as a writer does whose clock is wrong, or whose request takes long.
func (w *world) late(text string, by time.Duration) { w.lateIn("s", text, by) }

// lateIn is late for a shard.
func (w *world) lateIn(shard, text string, by time.Duration) {
	w.Helper()
	e := event(w, text)
	row := storage.Entity{Properties: e.Properties()}
	row.Key.Partition, row.Key.Row = shard, logtail.NewClock().NextKey(time.Now().Add(-by))
	proof.Must(w, w.table(nil).Write(w.Context(), storage.Op{Row: row.Row()}))
}

func TestFollowShowsExistingEvents(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		o    logtail.FollowOptions
		want []string
	}{
		{"the newest", logtail.FollowOptions{Newest: 1}, []string{"n 1", "late", "live"}}, // the late event is not the newest
		{"more events than exist", logtail.FollowOptions{Newest: 100}, []string{"e 0", "e 1", "e 2", "e 3", "e 4", "n 0", "n 1", "late", "live"}},
		{"since a time", logtail.FollowOptions{Newest: 3, Since: "2000-01-01T00:01:50Z"}, []string{"n 0", "n 1", "live"}},
		{"none", logtail.FollowOptions{}, []string{"late", "live"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, w *world) {
				s := w.streams(logtail.Options{})
				w.append(s, "s", numbered(t, "e", 5)...)
				time.Sleep(2 * time.Minute)
				w.append(s, "s", numbered(t, "n", 2)...)
				time.Sleep(5 * time.Second)
				stop := w.watch(tt.o)
				time.Sleep(time.Second)
				w.late("late", 30*time.Second)
				time.Sleep(20 * time.Second)
				w.append(s, "s", event(t, "live"))
				time.Sleep(20 * time.Second)
				if got := stop(); !slices.Equal(got, tt.want) {
					t.Errorf("the events shown are %q, want %q", got, tt.want)
				}
			})
		})
	}
}

// TestFollowStartsDuringAppends appends an event between a follower's first query and its query for the newest events. The
// event must be shown once.
func TestFollowStartsDuringAppends(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		s := w.streams(logtail.Options{})
		w.append(s, "s", event(t, "before"))
		next, reads := w.emulator.Transport(), 0
		stop := w.watchBy(w.streams(logtail.Options{Table: w.table(requester(func(r *http.Request) (*http.Response, error) {
			if strings.Contains(r.URL.Query().Get("$filter"), "PartitionKey eq 's'") {
				if reads++; reads == 2 {
					w.append(s, "s", event(t, "between"))
				}
			}
			return next.Do(r)
		}))}), logtail.FollowOptions{Newest: 10})
		time.Sleep(time.Minute)
		if got, want := stop(), []string{"before", "between"}; !slices.Equal(got, want) {
			t.Errorf("the events shown are %q, want %q", got, want)
		}
	})
}

// TestFollowBacksOff follows an idle stream for an hour. This must take a query every ten seconds, and a query a minute for the
// number of shards.
func TestFollowBacksOff(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		queries := w.queries(func() {
			stop := w.watch(logtail.FollowOptions{})
			time.Sleep(time.Hour)
			stop()
		})
		if queries < 360 || queries > 370+61 {
			t.Errorf("an hour takes %d queries", queries)
		}
	})
}

func TestFollowEndsIfShowFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, emulator.Options{})
	s := w.streams(logtail.Options{})
	w.append(s, "s", event(t, "x"))
	enough := errors.New("enough")
	if err := s.Follow(t.Context(), "s", logtail.FollowOptions{Newest: 1}, func(logtail.Event) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("Follow returns %v, want the error of show", err)
	}
}
