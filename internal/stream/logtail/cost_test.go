package logtail_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tablesweep/internal/proof"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/stream/logtail"
)

// appendUntil has ten writers append events to the stream s, about rate a second in all, until end.
// The returned function waits for them, and says how many events there are.
func (w *world) appendUntil(end time.Time, options logtail.Options, rate int) func() int {
	const writers, batch = 10, 10
	var g sync.WaitGroup
	var appended atomic.Int64
	for writer := range uint64(writers) {
		s, r := w.streams(options), rand.New(rand.NewPCG(writer, 1))
		g.Go(func() {
			var all sync.WaitGroup
			defer all.Wait()
			for time.Now().Before(end) {
				time.Sleep(2 * time.Duration(r.Int64N(int64(time.Second*writers*batch))) / time.Duration(rate))
				all.Go(func() {
					w.append(s, "s", numbered(w, "e", batch)...)
					appended.Add(batch)
				})
			}
		})
	}
	return func() int {
		g.Wait()
		return int(appended.Load())
	}
}

// A follower over HTTP asks once a second, and at once if there is more. At 1,000 events a second, its
// queries return at most two rows for each event. It keeps up to its ceiling, and gets every event once by short positions.
func TestRowsReadPerEventFollowed(t *testing.T) {
	t.Parallel()
	all := []struct {
		rate, shards int // events a second
		seconds      int
		rows         float64 // returned for each event, at most
	}{
		{1000, 1, 6, 1.45}, // 1.6 if the times of rows did not count beside that of the answer
		{1000, 4, 8, 2},
		{2000, 1, 6, 2.5},
		{100, 1, 8, 4},  // one query for each call all the same
		{4000, 1, 6, 5}, // the ceiling
		{5000, 1, 4, 12},
		{5000, 4, 4, 12},
		{5000, 16, 4, 12},
	}
	for _, tt := range all[:testsize.Slow(1, 4, len(all))] {
		t.Run(fmt.Sprintf("%d events a second, %d shards", tt.rate, tt.shards), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, w *world) {
				options := logtail.Options{Streams: map[string]logtail.StreamSettings{"s": {Shards: tt.shards}}}
				w.append(w.streams(options), "s", event(t, "before"))
				time.Sleep(2 * time.Minute) // until shards are used
				if err := w.emulator.SetFaults("seed=1; latency=5ms..50ms"); err != nil {
					t.Fatal(err)
				}
				s := w.streams(logtail.Options{})
				next, err := readAfter(t.Context(), s, "s", logtail.Now, logtail.MaxTop)
				proof.Must(t, err)
				end := time.Now().Add(time.Duration(tt.seconds) * time.Second)
				appended := w.appendUntil(end, options, tt.rate)
				before := w.emulator.Counts()
				got, calls, full, longest := map[string]bool{}, 0, 0, 0
				read := func() {
					if next, err = readAfter(t.Context(), s, "s", next.After, logtail.MaxTop); err != nil {
						t.Fatal(err)
					}
					for _, e := range next.Events {
						if got[e.ID] {
							t.Fatal("an event comes twice")
						}
						got[e.ID] = true
					}
					longest = max(longest, len(next.After))
					calls++
					if next.More {
						full++
					} else {
						time.Sleep(time.Second)
					}
				}
				for time.Now().Before(end) {
					read()
				}
				after, inTime := w.emulator.Counts(), len(got)
				total := appended()
				for idle := 0; idle < 4; { // what an answer holds back comes within seconds
					if read(); !next.More {
						idle++
					}
				}
				if len(got) != total || longest >= 3000 {
					t.Errorf("%d events of %d; the longest position has %d characters", len(got), total, longest)
				}
				rows := float64(after.QueryRows-before.QueryRows) / float64(inTime)
				t.Logf("%d events by %d calls, %d of them full, and %d queries: %.2f rows an event; the longest position has %d characters", inTime, calls, full, after.Query-before.Query, rows, longest)
				if inTime < tt.rate*(tt.seconds-2) {
					t.Errorf("%d events in %d s", inTime, tt.seconds)
				}
				if rows > tt.rows {
					t.Errorf("%.2f rows an event, want at most %.2f", rows, tt.rows)
				}
			})
		})
	}
}
