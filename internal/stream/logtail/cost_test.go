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

// appendUntil starts ten writers that append events to the stream s until the time end. Together they append about rate events
// a second. The returned function waits for the writers, and returns the number of events.
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

// TestRowsReadPerEvent runs a follower that calls once a second, and immediately if there are more events. At 1,000 events a
// second, its queries must return at most two rows for each event. Up to the highest rate, it must get every event once, with
// short positions.
func TestRowsReadPerEvent(t *testing.T) {
	t.Parallel()
	all := []struct {
		rate, shards int // rate in events a second, and number of shards
		seconds      int
		rows         float64 // maximum number of rows read for each event
	}{
		{1000, 1, 6, 1.45}, // it would be 1.6 if only the answer's time counted, and not the times of rows
		{1000, 4, 8, 2},
		{2000, 1, 6, 2.5},
		{100, 1, 8, 4},  // each call takes at least one query
		{4000, 1, 6, 5}, // the highest rate
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
				time.Sleep(2 * time.Minute) // until writers use the shards
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
							t.Fatal("the follower gets an event twice")
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
				for idle := 0; idle < 4; { // rows that an answer does not contain yet come within seconds
					if read(); !next.More {
						idle++
					}
				}
				if len(got) != total || longest >= 3000 {
					t.Errorf("the follower gets %d events of %d; the longest position has %d characters", len(got), total, longest)
				}
				rows := float64(after.QueryRows-before.QueryRows) / float64(inTime)
				t.Logf("%d events by %d calls, %d of them full, and %d queries: %.2f rows for each event; the longest position has %d characters", inTime, calls, full, after.Query-before.Query, rows, longest)
				if inTime < tt.rate*(tt.seconds-2) {
					t.Errorf("the follower gets only %d events in %d s", inTime, tt.seconds)
				}
				if rows > tt.rows {
					t.Errorf("%.2f rows are read for each event, want at most %.2f", rows, tt.rows)
				}
			})
		})
	}
}
