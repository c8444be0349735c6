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

// TestShardsGrowAndShrink changes the number of shards. Running readers must find every event directly after its append, and
// all old events, with any settings.
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
					time.Sleep(time.Microsecond) // otherwise the order of the events is random
				}
				for i, r := range readers {
					got := w.read(r, "s", logtail.EventQuery{Top: 1000}).Events
					if len(got) != n || text(got[0]) != fmt.Sprint(n-1) {
						t.Fatalf("with %d shards, reader %d finds %d events, want %d", shards, i, len(got), n)
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
			t.Errorf("a shard beyond every writer's settings has %d events", got)
		}
	})
}

// TestRetention checks that Maintain deletes exactly the events that are older than their stream's retention, even if another
// Maintain runs at the same time or the service sometimes fails.
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
				if got := w.allEvents(w.streams(logtail.Options{}), names[i], 1000); len(got) != want || !isSorted(got) {
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
			t.Error("the storage has not made any fault")
		}
	})
}

// TestMaintainNeedsFewRequests checks that Maintain searches for old events rarely, and not at all without a retention. It
// searches for notes of idempotency keys once an hour.
func TestMaintainNeedsFewRequests(t *testing.T) {
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
				t.Errorf("with the retention %v, a day takes %d requests, want at most %d", tt.retention, got, tt.limit)
			}
		}
	})
}

// TestMaintainEndsAfterAMinute checks that Maintain ends after a minute, and that the next call continues.
func TestMaintainEndsAfterAMinute(t *testing.T) {
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
				t.Fatalf("Maintain took %v, want about a minute", took)
			}
			now := int(w.count(w.table(w.emulator.Transport()), "s"))
			if now >= left || rounds > 20 {
				t.Fatalf("after round %d, %d events of %d remain", rounds, now, left)
			}
			left = now
			time.Sleep(time.Minute)
		}
	})
}
