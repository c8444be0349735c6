package logtail

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/storage"
)

// A follower's positions, through their text, tell apart what it has got and what it has not: rows
// become visible in the order of their Timestamps, several at one tick, and their ids in any order.
func TestPositionsTellWhatWasGiven(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 8))
	start := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	for round := range testsize.Of(3, 20) {
		var rows []arrival // newest first
		from, longest := position{newer: Since(start.Add(-time.Hour))}, 0
		now := start
		var waiting []string // ids of rows that are written later, newest first
		for i := range 30 {
			waiting = append(waiting, NewClock().NextKey(start.Add(-time.Duration(i)*time.Minute)))
		}
		sent := map[string]bool{}
		top := 1 + r.IntN(50)
		for range 40 {
			for range r.IntN(60) {
				if r.IntN(4) > 0 {
					now = now.Add(time.Duration(r.Int64N(int64(40 * time.Millisecond))))
				}
				id := NewClock().NextKey(now.Add(-time.Duration(r.Int64N(int64(time.Minute)))))
				if n := len(waiting); n > 0 && r.IntN(20) == 0 { // one whose id is hours old
					id, waiting = waiting[n-1], waiting[:n-1]
				}
				rows = append(rows, arrival{place: place{ticksOf(now), id}, row: storage.Entity{Key: key.Key{Row: id}}})
			}
			oldest := ""
			if n := len(waiting); n > 0 {
				oldest = Since(start.Add(-time.Duration(n) * time.Minute))
			}
			now = now.Add(time.Millisecond) // or else some may come at a tick that was read
			slices.SortFunc(rows, func(a, b arrival) int { return a.compare(b.place) })
			read := slices.DeleteFunc(slices.Clone(rows), func(a arrival) bool { return a.written < from.floor || a.id >= from.newer })
			from.settle(read)
			events, _ := wanted(read, top)
			for _, e := range events {
				if sent[e.Key.Row] {
					t.Fatalf("round %d: an event is sent twice", round)
				}
				sent[e.Key.Row] = true
			}
			left := slices.IndexFunc(read, func(a arrival) bool { return !a.given })
			if want := len(rows) - len(sent); (left < 0) != (want == 0) {
				t.Fatalf("round %d: %d events of %d were not sent, and nobody knows", round, want, len(rows))
			}
			text := from.after(read, now, oldest).String()
			longest = max(longest, len(text))
			var err error
			if from, err = parsePosition(text); err != nil {
				t.Fatalf("round %d: %s: %v", round, text, err)
			}
		}
		if longest > 800 {
			t.Errorf("round %d: a position of %d characters", round, longest)
		}
	}
}

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
			rows = append(rows, arrival{place{ticksOf(written), Since(written) + "-ffff-abcdefghijkl"}, storage.Entity{}, true})
		}
		late, most := tt.late, tt.most
		p := position{newer: rows[len(rows)-1].id}.after(slices.Delete(slices.Clone(rows), late, late+1), at, "")
		if text := p.String(); len(text) > 800 || strings.ContainsAny(text, "+/=&% ") {
			t.Errorf("position %s of %d characters", text, len(text))
		}
		again := slices.Clone(rows)
		for i := range again {
			again[i].given = false
		}
		p.settle(again)
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

// A row that was written behind known, in a shard that was read earlier than others, is sent alone: no group reaches across known.
func TestPositionWithAShardReadEarlier(t *testing.T) {
	known := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	for newer := range maxSingle {
		var rows []arrival // newest first
		for i := -newer; i < 40; i++ {
			written := known.Add(-time.Duration(i)*time.Second/100 + time.Millisecond)
			rows = append(rows, arrival{place{ticksOf(written), Since(written) + "-ffff-abcdefghijkl"}, storage.Entity{}, true})
		}
		late := newer // between known and the oldest row behind it
		p := position{newer: rows[len(rows)-1].id}.after(slices.Delete(slices.Clone(rows), late, late+1), known, "")
		for i := range rows {
			rows[i].given = false
		}
		p.settle(rows)
		for i, a := range rows {
			if a.written >= p.floor && a.given != (i != late) {
				t.Errorf("%d rows behind known, and one between: row %d counts as given: %v", newer, i-late, a.given)
			}
		}
	}
}
