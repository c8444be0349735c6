package logtail_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"tablesweep/internal/proof"
	"tablesweep/internal/stream/logtail"
)

func read(t *testing.T, r *http.Request) string {
	if r.Body == nil {
		return ""
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(b))
	return string(b)
}

// If the number of shards changes, running readers see every event as soon as it is appended, and
// all old ones, whatever their settings.
func TestShardsGrowAndShrink(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		readers := []*logtail.Streams{w.streams(logtail.Options{}), w.streams(logtail.Options{Streams: map[string]logtail.StreamSettings{"s": {Shards: 9}}})}
		n := 0
		for _, shards := range []int{1, 4, 2, 8, 1} {
			o := logtail.Options{Streams: map[string]logtail.StreamSettings{"s": {Shards: shards}}}
			writers := []*logtail.Streams{w.streams(o), w.streams(o)}
			for range 16 {
				for _, s := range writers {
					w.append(s, "s", event(t, fmt.Sprint(n)))
					n++
					time.Sleep(time.Microsecond) // or else their order is by chance
				}
				for i, r := range readers {
					got := w.read(r, "s", logtail.EventQuery{Top: 1000}).Events
					if len(got) != n || text(got[0]) != fmt.Sprint(n-1) {
						t.Fatalf("%d shards, reader %d: %d events, want %d", shards, i, len(got), n)
					}
				}
				time.Sleep(10 * time.Second)
			}
		}
		table := w.table(w.emulator.Transport())
		for shard, least := range map[string]int64{"s": 50, "s|01": 10, "s|03": 3, "s|07": 2} {
			if got := w.count(table, shard); got < least {
				t.Errorf("partition %s has %d events, want at least %d", shard, got, least)
			}
		}
		if got := w.count(table, "s|08"); got > 0 {
			t.Errorf("a shard that no writer was configured with has %d events", got)
		}
	})
}

// Maintain deletes the events older than their stream's retention, and no others, even beside
// another Maintain, and if the service sometimes fails.
func TestRetention(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		hour := time.Hour
		o := logtail.Options{Retention: 24 * time.Hour, Streams: map[string]logtail.StreamSettings{
			"short": {Shards: 3, Retention: &hour}, "kept": {Retention: forever()},
		}}
		s := w.streams(o)
		names := []string{"short", "kept", "a/other"}
		appendAll := func(n int) {
			for _, name := range names {
				w.append(s, name, numbered(t, name, n)...)
			}
		}
		appendAll(1)
		time.Sleep(2 * time.Minute)
		appendAll(1250)
		time.Sleep(time.Hour - 10*time.Second)
		appendAll(7)
		time.Sleep(12 * time.Second)

		expect := func(short, kept, other int) {
			t.Helper()
			for i, want := range []int{short, kept, other} {
				if got := w.all(w.streams(logtail.Options{}), names[i], 1000); len(got) != want || !isSorted(got) {
					t.Errorf("stream %s has %d events, want %d", names[i], len(got), want)
				}
			}
		}
		fired := 0
		maintain := func() {
			t.Helper()
			proof.Must(t, w.emulator.SetFaults("seed=1; timeout-after p=0.3 on=batch,insert,merge,update; busy p=0.2"))
			var g sync.WaitGroup
			for range 2 {
				g.Go(func() {
					if err := w.streams(o).Maintain(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			g.Wait()
			fired += w.emulator.FaultCounts()["timeout-after"]
			proof.Must(t, w.emulator.SetFaults(""))
		}
		maintain()
		expect(7, 1258, 1258)
		time.Sleep(24 * time.Hour)
		maintain()
		expect(0, 1258, 0)
		w.append(s, "short", event(t, "again"))
		expect(1, 1258, 0)
		if fired == 0 {
			t.Error("no fault fired")
		}
	})
}

// Looking for old events is cheap: it is rare, and without a retention it does not happen. Notes of
// idempotency keys are looked for once an hour.
func TestMaintainIsCheap(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		for _, tt := range []struct {
			retention time.Duration
			limit     int64
		}{{0, 25}, {30 * 24 * time.Hour, 24*60 + 50}} {
			s := w.streams(logtail.Options{Retention: tt.retention})
			w.append(s, "s", event(t, "x"))
			w.emulator.ResetCounts()
			for range 24 * 60 {
				proof.Must(t, s.Maintain(t.Context()))
				time.Sleep(time.Minute)
			}
			if got := w.emulator.Counts().TableTransactions(); got > tt.limit {
				t.Errorf("retention %v: a day took %d requests, want at most %d", tt.retention, got, tt.limit)
			}
		}
	})
}

// Maintain ends after a minute, and goes on next time.
func TestMaintainIsTimeBoxed(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, w *world) {
		s := w.streams(logtail.Options{Retention: time.Hour})
		for range 3 {
			w.append(s, "s", numbered(t, "e", 1000)...)
		}
		time.Sleep(2 * time.Hour)
		proof.Must(t, w.emulator.SetFaults("latency=10s"))
		left := 3000
		for rounds := 0; left > 0; rounds++ {
			start := time.Now()
			proof.Must(t, s.Maintain(t.Context()))
			if took := time.Since(start); took > 90*time.Second {
				t.Fatalf("took %v", took)
			}
			now := int(w.count(w.table(w.emulator.Transport()), "s"))
			if now >= left || rounds > 20 {
				t.Fatalf("round %d: %d events left of %d", rounds, now, left)
			}
			left = now
			time.Sleep(time.Minute)
		}
	})
}
