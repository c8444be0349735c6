package logtail_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/stream/logtail"
)

// TestWrongClocksHideNoEvents runs writers whose clocks are wrong by up to ten minutes, or are set while they write. Some of
// their requests take half a minute. Followers store only their position, call different processes, and may die before they
// have stored an answer. Each follower must get every event once.
func TestWrongClocksHideNoEvents(t *testing.T) {
	t.Parallel()
	for seed := range uint64(testsize.Slow(1, 4, 12)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { followWrongClocks(t, seed) })
		})
	}
}

func followWrongClocks(t *testing.T, seed uint64) {
	w := newWorld(t, emulator.Options{})
	options := logtail.Options{Streams: map[string]logtail.StreamSettings{"s": {Shards: 1 + int((seed+1)%3)}}}
	w.append(w.streams(options), "s", event(t, "before"))
	time.Sleep(2 * time.Minute) // until writers use the shards
	proof.Must(t, w.emulator.SetFaults(fmt.Sprintf("seed=%d; latency=1ms..2s; short-page p=0.2; empty-page p=0.1 times=1; timeout-after p=0.1 on=batch,insert times=1; busy p=0.1", seed)))
	followers := make([]follower, 3)
	for i := range followers {
		next, err := readAfter(t.Context(), w.streams(logtail.Options{}), "s", logtail.Now, 1)
		proof.Must(t, err)
		followers[i] = follower{w, next.After, map[string]int{}}
	}
	var writing, following sync.WaitGroup
	var mu sync.Mutex
	want := map[string]bool{}
	for n := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, n))
		off := time.Duration(r.Int64N(int64(20*time.Minute))) - 10*time.Minute
		s := w.streams(logtail.Options{Table: w.table(w.slow(r)), Streams: options.Streams, Now: func() time.Time { return time.Now().Add(off) }})
		writing.Go(func() {
			for i := range 25 {
				if time.Sleep(time.Duration(rand.New(rand.NewPCG(seed, 100*n+uint64(i))).Int64N(int64(8 * time.Second)))); i == 12 {
					off = -off // the writer's clock is set
				}
				before := time.Now()
				ids, err := s.Append(t.Context(), "s", numbered(t, fmt.Sprint(n, " ", i), 1+i%3))
				if err != nil {
					t.Errorf("an append of writer %d fails: %v", n, err)
					return
				}
				for _, id := range ids {
					at, err := logtail.KeyTime(id)
					if d := at.Sub(before); err != nil || d < -2*time.Second || d > time.Minute {
						t.Errorf("with a clock that is wrong by %v, the time of an event is wrong by %v", off, d)
					}
					mu.Lock()
					want[id] = true
					mu.Unlock()
				}
			}
		})
	}
	done := make(chan struct{})
	for i := range followers {
		following.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(1000+i)))
			for {
				select {
				case <-done:
					return
				case <-time.After(time.Duration(r.Int64N(int64(15 * time.Second)))):
					followers[i].call(r)
				}
			}
		})
	}
	writing.Wait()
	time.Sleep(3 * time.Minute)
	close(done)
	following.Wait()
	for i, f := range followers {
		f.check(fmt.Sprintf("seed %d: follower %d", seed, i), want)
	}
}

// slow returns a transport that delays a writer's requests by up to 25 s, at most one request a minute.
func (w *world) slow(r *rand.Rand) requester {
	var mu sync.Mutex
	var last time.Time
	next := w.emulator.Transport()
	return func(q *http.Request) (*http.Response, error) {
		mu.Lock()
		late := q.Method == http.MethodPost && r.IntN(10) == 0 && time.Since(last) > time.Minute
		pause := time.Duration(r.Int64N(int64(25 * time.Second)))
		if late {
			last = time.Now()
		}
		mu.Unlock()
		if late {
			time.Sleep(pause)
		}
		return next.Do(q)
	}
}

// follower is a follower that stores only its position.
type follower struct {
	*world
	after string
	got   map[string]int // number of times that each event was received, by id
}

// call calls After in another process, until there are no more events. The follower may die before it has stored an answer.
func (f *follower) call(r *rand.Rand) {
	off := time.Duration(r.Int64N(int64(time.Hour)))
	s := f.streams(logtail.Options{Now: func() time.Time { return time.Now().Add(off) }})
	for more := true; more; {
		next, err := readAfter(f.Context(), s, "s", f.after, 1+r.IntN(20))
		if err != nil {
			f.Error(err)
			return
		}
		if r.IntN(4) == 0 {
			return
		}
		for _, e := range next.Events {
			f.got[e.ID]++
		}
		f.after, more = next.After, next.More
	}
}

func (f *follower) check(name string, want map[string]bool) {
	f.Helper()
	lost, twice := 0, 0
	for id := range want {
		if f.got[id] == 0 {
			lost++
		}
	}
	for _, n := range f.got {
		if n > 1 {
			twice++
		}
	}
	if lost > 0 || twice > 0 || len(f.got) != len(want) {
		f.Errorf("%s got %d of %d events; %d are missing, and %d came twice", name, len(f.got), len(want), lost, twice)
	}
}
