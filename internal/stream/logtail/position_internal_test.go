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

// A row that becomes visible late is sent, with few others, and a position stays short for any number of
// rows. All rows of the last 0.2 s are read again, and the newest 200 of the last 30 s.
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
		p := position{newer: rows[len(rows)-1].id}.after(slices.Delete(slices.Clone(rows), late, late+1), ticksOf(at), "")
		if text := p.String(); len(text) > 800 || strings.ContainsAny(text, "+/=&% ") {
			t.Errorf("position %s of %d characters", text, len(text))
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
			t.Errorf("row %d is late: sent %v, with %d others, want at most %d", late, !again[late].given, n-1, most)
		}
	}
}

// A follower gets every event once, at any rate, over any number of shards, and its positions stay short. Shards are read one
// after the other, in pages, some of them empty. The service's time is in whole seconds.
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
				stop := call >= 40 // writing
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
					rows, known := s.read(from, first && !stop)
					from.markReceived(rows)
					var found []storage.Row
					found, more = takeDue(rows, tt.top, max(from.known, known))
					for _, e := range found {
						if seen[e.Key.Row] {
							t.Fatalf("%+v, seed %d, call %d: an event comes twice", tt, seed, call)
						}
						seen[e.Key.Row] = true
					}
					text := from.after(rows, max(from.known, known), oldest).String()
					longest = max(longest, len(text))
					var err error
					if from, err = parsePosition(text); err != nil {
						t.Fatal(text, err)
					}
					more = more && s.r.IntN(20) > 0 // some don't ask at once
				}
				behind = max(behind, s.n-len(seen))
			}
			for range tt.burst + 1000 { // those that did not ask at once
				oldest := s.oldest()
				rows, known := s.read(from, false)
				from.markReceived(rows)
				found, more := takeDue(rows, max(tt.top, 1000), max(from.known, known))
				for _, e := range found {
					if seen[e.Key.Row] {
						t.Fatalf("%+v, seed %d: an event comes twice", tt, seed)
					}
					seen[e.Key.Row] = true
				}
				if from = from.after(rows, max(from.known, known), oldest); !more {
					break
				}
			}
			t.Logf("%+v, seed %d: %d events, at most %d behind; the longest position has %d characters", tt, seed, len(seen), behind, longest)
			if len(seen) != s.n {
				t.Errorf("%+v, seed %d: %d events of %d", tt, seed, len(seen), s.n)
			}
		}
	}
}

// shards are partitions that events are written to while they are read.
type shards struct {
	r     *rand.Rand
	began time.Time
	t     time.Time
	rows  [][]arrival // in the order in which they were written
	n     int
	// pending are events with ids of as many minutes and fewer before began. They are not written yet.
	pending int
}

// write writes n events, one after the other, some at one tick. The time in an event's id is up to a minute earlier, or that of a pending one.
func (s *shards) write(n int, apart time.Duration) {
	var shard *[]arrival
	for range n {
		if shard == nil || s.r.IntN(4) > 0 { // those of one tick are written together
			s.t = s.t.Add(apart)
			shard = &s.rows[s.r.IntN(max(1, len(s.rows)-1))] // the last one stays empty
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

// oldest is as of [Feed.oldest].
func (s *shards) oldest() string {
	if s.pending == 0 {
		return ""
	}
	return Since(s.began.Add(-time.Duration(s.pending) * time.Minute))
}

// read returns what a call reads behind a position, and its known, as [Feed.arrivals] does. Others write meanwhile.
func (s *shards) read(from position, writing bool) (all []arrival, known ticks) {
	known = lastTick
	for i := range s.rows {
		asked := s.t
		var page []arrival
		first, behind := true, "" // the id that the last page ended with
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
			if first && s.r.IntN(10) == 0 { // empty, with a token
				page, more = page[:0], true
			}
			if first {
				here := ticksOf(s.t.Truncate(time.Second).Add(-s.t.Sub(asked)))
				for _, a := range page {
					here = max(here, a.written)
				}
				known, first = min(known, here), false
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
	return all, known
}
