package logtail_test

import (
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"tablesweep/internal/emulator"
	"tablesweep/internal/logtail"
)

// maxGrowth is the most that the newest 50 of a million events may take over those of a
// thousand.
const maxGrowth = 1.2

// BenchmarkNewest reads the newest 50 events of a stream of a million, by one query, and
// fails if that takes longer than for a stream of a thousand. The fastest of many turns,
// taken alternately, count, so that other work on the machine does not decide.
func BenchmarkNewest(b *testing.B) {
	small, large := newStream(b, 1_000), newStream(b, 1_000_000)
	shortest := func(read func(), best time.Duration) time.Duration {
		start := time.Now()
		for range 5 {
			read()
		}
		return min(best, time.Since(start)/5)
	}
	few, many := time.Hour, time.Hour
	for range 300 {
		few, many = shortest(small, few), shortest(large, many)
	}
	b.ResetTimer()
	for b.Loop() {
		large()
	}
	ratio := float64(many) / float64(few)
	b.ReportMetric(ratio, "x-thousand")
	if ratio > maxGrowth {
		b.Errorf("the newest 50 of a million events take %v, %.2f times those of a thousand, want at most %.1f", many, ratio, maxGrowth)
	}
}

// newStream makes a stream of n events, and returns what reads the newest 50.
func newStream(b *testing.B, n int) (read func()) {
	b.Helper()
	w := newWorld(b, emulator.Options{})
	s := w.streams(logtail.Options{})
	events := numbered(b, "event", 1000)
	w.append(s, "s", events[0]) // lists the stream
	var g errgroup.Group
	g.SetLimit(4)
	for range n / len(events) {
		g.Go(func() error {
			_, err := s.Append(b.Context(), "s", events)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		b.Fatal(err)
	}
	w.read(s, "s", logtail.EventQuery{Top: 1}) // looks the stream up
	queries := w.queries(func() { w.read(s, "s", logtail.EventQuery{Top: 50}) })
	if queries != 1 {
		b.Fatalf("the newest 50 of %d took %d queries", n, queries)
	}
	b.Logf("%d events, newest %s", n, w.read(s, "s", logtail.EventQuery{Top: 1}).Events[0].ID)
	return func() {
		if p := w.read(s, "s", logtail.EventQuery{Top: 50}); len(p.Events) != 50 {
			b.Fatalf("%d events", len(p.Events))
		}
	}
}
