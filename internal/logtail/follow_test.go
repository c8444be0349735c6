package logtail_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/emulator"
	"tablesweep/internal/logtail"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/storage"
)

// watch follows a stream in the background. The returned function ends that, and returns
// the texts shown until then.
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

// late inserts an event like a writer whose clock is off, or whose request takes long.
func (w *world) late(text string, by time.Duration) { w.lateIn("s", text, by) }

// lateIn does what late does in a shard.
func (w *world) lateIn(shard, text string, by time.Duration) {
	w.Helper()
	e := event(w, text)
	row := storage.Entity{Properties: e.Properties()}
	row.Key.Partition, row.Key.Row = shard, logtail.NewClock().NextKey(time.Now().Add(-by))
	if err := w.table(nil).Write(w.Context(), storage.Op{Entity: row}); err != nil {
		w.Fatal(err)
	}
}

// Writers with different clocks and slow requests append. Each follower gets every event once.
func TestFollowersMissAndRepeatNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(testsize.Of(2, 6)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 2))
				w := newWorld(t, emulator.Options{})
				// Latency and skew together stay within the window.
				faults := fmt.Sprintf("seed=%d; latency=1ms..8s", seed)
				if seed%2 == 1 {
					faults += "; short-page p=0.3; empty-page p=0.2 times=1; timeout-after p=0.1 on=batch,insert times=1; busy p=0.1"
				}
				if err := w.emulator.SetFaults(faults); err != nil {
					t.Fatal(err)
				}
				shards := 1 + int(seed%4)
				start := time.Now()
				stops := []func() []string{
					w.watch(logtail.FollowOptions{}),
					w.watch(logtail.FollowOptions{Newest: 10}),
					w.watch(logtail.FollowOptions{Since: start.Add(-time.Minute).Format(time.RFC3339Nano)}),
				}
				time.Sleep(30 * time.Second) // until all have begun
				var g sync.WaitGroup
				var mu sync.Mutex
				var want []string
				for writer := range 5 {
					skew := time.Duration(r.Int64N(int64(10*time.Second))) - 5*time.Second
					s := w.streams(logtail.Options{
						Streams: map[string]logtail.StreamSettings{"s": {Shards: shards}},
						Now:     func() time.Time { return time.Now().Add(skew) },
					})
					pauses := rand.New(rand.NewPCG(seed, uint64(writer)))
					g.Go(func() {
						for i := range 40 {
							time.Sleep(time.Duration(pauses.Int64N(int64(10 * time.Second))))
							records := numbered(t, fmt.Sprintf("%d.%d", writer, i), 1+pauses.IntN(3))
							for _, e := range w.append(s, "s", records...) {
								mu.Lock()
								want = append(want, text(e))
								mu.Unlock()
							}
						}
					})
				}
				g.Wait()
				time.Sleep(2 * time.Minute)
				slices.Sort(want)
				for i, stop := range stops {
					got := stop()
					slices.Sort(got)
					if !slices.Equal(got, want) {
						t.Errorf("follower %d was shown %d events, %d different; want %d", i, len(got), len(slices.Compact(slices.Clone(got))), len(want))
					}
				}
			})
		})
	}
}

func TestFollowShowsWhatIsThereFirst(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		o    logtail.FollowOptions
		want []string
	}{
		{"the newest", logtail.FollowOptions{Newest: 3}, []string{"e 4", "n 0", "n 1", "late", "live"}},
		{"more than there are", logtail.FollowOptions{Newest: 100}, []string{"e 0", "e 1", "e 2", "e 3", "e 4", "n 0", "n 1", "late", "live"}},
		{"none", logtail.FollowOptions{}, []string{"late", "live"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, emulator.Options{})
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
					t.Errorf("shown %q, want %q", got, tt.want)
				}
			})
		})
	}
}

// What comes while a follower begins is shown once: an event that comes between its first read and
// that of the newest events.
func TestFollowBeginsWhileEventsCome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{})
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
			t.Errorf("shown %q, want %q", got, want)
		}
	})
}

func TestFollowSince(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{})
		s := w.streams(logtail.Options{})
		events := w.append(s, "s", numbered(t, "e", 5)...)
		stop := w.watch(logtail.FollowOptions{Since: events[2].ID})
		time.Sleep(10 * time.Second)
		w.late("before since", 20*time.Second)
		w.append(s, "s", event(t, "live"))
		time.Sleep(20 * time.Second)
		if got, want := stop(), []string{"e 3", "e 4", "live"}; !slices.Equal(got, want) {
			t.Errorf("shown %q, want %q", got, want)
		}
	})
}

// An event that comes 59 s late is shown, also while the stream is busy. So are events behind one
// from the future.
func TestFollowLateAndEarlyEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{})
		s := w.streams(logtail.Options{})
		stop := w.watch(logtail.FollowOptions{})
		time.Sleep(5 * time.Minute)
		var want []string
		w.late("future", -time.Hour)
		want = append(want, "future")
		for i := range 20 {
			time.Sleep(20 * time.Second)
			late, live := fmt.Sprintf("late %d", i), fmt.Sprintf("live %d", i)
			w.late(late, 59*time.Second)
			w.append(s, "s", event(t, live))
			want = append(want, late, live)
		}
		time.Sleep(20 * time.Second)
		if got := stop(); !slices.Equal(got, want) {
			t.Errorf("shown %q, want %q", got, want)
		}
	})
}

// Following an idle stream for an hour costs a query every ten seconds, and one a minute
// for the number of shards.
func TestFollowBacksOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, emulator.Options{})
		queries := w.queries(func() {
			stop := w.watch(logtail.FollowOptions{})
			time.Sleep(time.Hour)
			stop()
		})
		if queries < 360 || queries > 370+61 {
			t.Errorf("an hour took %d queries", queries)
		}
	})
}

func TestFollowEndsWithShow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, emulator.Options{})
	s := w.streams(logtail.Options{})
	w.append(s, "s", event(t, "x"))
	enough := errors.New("enough")
	if err := s.Follow(t.Context(), "s", logtail.FollowOptions{Newest: 1}, func(logtail.Event) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("got %v", err)
	}
}
