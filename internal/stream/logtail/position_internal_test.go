package logtail

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/storage"
)

// TestPositionWithALateRow checks that a row that becomes visible late is sent, with few other rows, and that a position is
// short for any number of rows. All rows of the last 0.2 s are read again, and the newest 200 of the last 30 s.
func TestPositionWithALateRow(t *testing.T) {
	at := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	for _, tt := range []struct {
		apart      time.Duration
		late, most int
	}{
		{time.Microsecond, 3, 3}, {time.Microsecond, 50, 40}, {time.Microsecond, 1000, 700}, {time.Microsecond, 5000, 4500},
		{50 * time.Millisecond, 150, 100}, {time.Second, 25, 20},
	} {
		var rows []arrival
		for i := range 10_000 {
			written := at.Add(-time.Duration(i) * tt.apart)
			rows = append(rows, arrival{place: place{ticksOf(written), Since(written) + "-ffff-abcdefghijkl"}, given: true})
		}
		late, most := tt.late, tt.most
		p := position{newer: rows[len(rows)-1].id}.advance(slices.Delete(slices.Clone(rows), late, late+1), ticksOf(at), "")
		if text := p.String(); len(text) > 800 || strings.ContainsAny(text, "+/=&% ") {
			t.Errorf("the position %s has %d characters", text, len(text))
		}
		again := slices.Clone(rows)
		for i := range again {
			again[i].given = false
		}
		p.markReceived(again)
		n := 0
		for _, a := range again {
			if !a.given && a.written >= p.floor {
				n++
			}
		}
		if again[late].given || again[late].written < p.floor || n > most {
			t.Errorf("the late row %d is sent: %v, with %d other rows, want at most %d", late, !again[late].given, n-1, most)
		}
	}
}

// TestFollowersGetEveryEventOnceByShortPositions checks that a follower gets every event once, at any rate and with any number
// of shards, and that its positions are short. Shards are read one after another, in pages, and some pages are empty. The
// service's time is in whole seconds.
func TestFollowersGetEveryEventOnceByShortPositions(t *testing.T) {
	testsize.WithoutRace(t)
	all := []struct {
		shards, perSecond, burst, top int
	}{
		{1, 10, 0, 50}, {16, 30, 600, 50}, {4, 500, 1000, 1000}, {8, 300, 1000, 7}, {64, 2000, 0, 1000}, {2, 5, 300, 1},
		{16, 5000, 0, 1000}, {64, 100, 100_000, 1000},
	}
	for _, tt := range all[:testsize.Of(5, len(all))] {
		for seed := range uint64(testsize.Slow(1, 1, 3)) {
			began := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
			s := &shards{rows: make([][]arrival, tt.shards), r: rand.New(rand.NewPCG(seed, 1)), began: began, t: began, pending: 30}
			from := position{newer: Since(s.t.Add(-time.Hour))}
			seen, longest, behind := map[string]bool{}, 0, 0
			for call := range 60 {
				stop := call >= 40 // no more events are written
				pause := s.r.IntN(tt.perSecond/5 + 1)
				if !stop {
					s.write(pause, time.Second/time.Duration(tt.perSecond))
				}
				if call == 5 {
					s.write(tt.burst, 10*time.Microsecond)
				}
				if stop {
					s.t = s.t.Add(time.Second)
				}
				for more, first := true, true; more; first = false {
					oldest := s.oldest()
					rows, readUntil := s.read(from, first && !stop)
					from.markReceived(rows)
					var found []storage.Row
					found, more = takeDue(rows, tt.top, max(from.readUntil, readUntil))
					for _, e := range found {
						if seen[e.Key.Row] {
							t.Fatalf("%+v, seed %d, call %d: the follower gets an event twice", tt, seed, call)
						}
						seen[e.Key.Row] = true
					}
					text := from.advance(rows, max(from.readUntil, readUntil), oldest).String()
					longest = max(longest, len(text))
					var err error
					if from, err = parsePosition(text); err != nil {
						t.Fatal(text, err)
					}
					more = more && s.r.IntN(20) > 0 // sometimes the follower does not call again immediately
				}
				behind = max(behind, s.n-len(seen))
			}
			for range tt.burst + 1000 { // the follower gets the remaining events
				oldest := s.oldest()
				rows, readUntil := s.read(from, false)
				from.markReceived(rows)
				found, more := takeDue(rows, max(tt.top, 1000), max(from.readUntil, readUntil))
				for _, e := range found {
					if seen[e.Key.Row] {
						t.Fatalf("%+v, seed %d: the follower gets an event twice", tt, seed)
					}
					seen[e.Key.Row] = true
				}
				if from = from.advance(rows, max(from.readUntil, readUntil), oldest); !more {
					break
				}
			}
			t.Logf("%+v, seed %d: %d events, at most %d not yet received; the longest position has %d characters", tt, seed, len(seen), behind, longest)
			if len(seen) != s.n {
				t.Errorf("%+v, seed %d: the follower gets %d events of %d", tt, seed, len(seen), s.n)
			}
		}
	}
}

// shards are partitions to which events are written while the partitions are read.
type shards struct {
	r     *rand.Rand
	began time.Time
	t     time.Time
	rows  [][]arrival // in the order in which they were written
	n     int
	// pending is the number of events that are not written yet. The times in their ids are 1 to pending minutes before began.
	pending int
}

// write writes n events, one after another, and some at the same tick. The time in an event's id is up to a minute earlier, or the time of a
// pending event.
func (s *shards) write(n int, apart time.Duration) {
	var shard *[]arrival
	for range n {
		if shard == nil || s.r.IntN(4) > 0 { // events of one tick are in one shard
			s.t = s.t.Add(apart)
			shard = &s.rows[s.r.IntN(max(1, len(s.rows)-1))] // the last shard stays empty
		}
		at := s.t.Add(-time.Duration(s.r.Int64N(int64(50 * time.Second))))
		if s.pending > 0 && s.r.IntN(20) == 0 {
			s.pending--
			at = s.began.Add(-time.Duration(s.pending) * time.Minute)
		}
		id := fmt.Sprintf("%s-ffff-%012d", Since(at)[:inverted], s.n)
		*shard = append(*shard, arrival{place: place{ticksOf(s.t), id}, row: &storage.Row{Key: key.Key{Row: id}}})
		s.n++
	}
}

// oldest returns the bound that [Feed.newestBound] would return.
func (s *shards) oldest() string {
	if s.pending == 0 {
		return ""
	}
	return Since(s.began.Add(-time.Duration(s.pending) * time.Minute))
}

// read returns the rows that a call reads from a position, and the time readUntil, as [Feed.arrivals] does. If `writing` is true,
// events are written meanwhile.
func (s *shards) read(from position, writing bool) (all []arrival, readUntil ticks) {
	readUntil = lastTick
	for i := range s.rows {
		start := s.t
		var page []arrival
		first, behind := true, "" // the last id of the previous page
		for {
			if writing {
				s.write(s.r.IntN(12), time.Millisecond)
			}
			page = page[:0]
			for n := len(s.rows[i]) - 1; n >= 0 && s.rows[i][n].written >= from.floor; n-- {
				if a := s.rows[i][n]; a.id < from.newer && a.id > behind {
					page = append(page, a)
				}
			}
			slices.SortFunc(page, func(a, b arrival) int { return strings.Compare(a.id, b.id) })
			more := len(page) > 1000
			page = page[:min(1000, len(page))]
			if first && s.r.IntN(10) == 0 { // an empty page with a token
				page, more = page[:0], true
			}
			if first {
				here := ticksOf(s.t.Truncate(time.Second).Add(-s.t.Sub(start)))
				for _, a := range page {
					here = max(here, a.written)
				}
				readUntil, first = min(readUntil, here), false
			}
			all = append(all, page...)
			if !more {
				break
			}
			if len(page) > 0 {
				behind = page[len(page)-1].id
			}
		}
	}
	slices.SortFunc(all, func(a, b arrival) int { return a.compare(b.place) })
	return all, readUntil
}
