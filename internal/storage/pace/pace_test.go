package pace_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"tablesweep/internal/storage/pace"
)

// service answers requests at 100 a second and slot, up to its capacity.
type service struct {
	capacity float64 // requests a second
	refuses  bool    // throttles beyond its capacity instead of queueing
}

// run lets a pace work against the service for a number of seconds and returns
// the limit that it ended with and the share of requests refused.
func (s service) run(p *pace.Pace, seconds int) (limit int, share float64) {
	done, refused := 0, 0
	for range seconds * 10 {
		rate := float64(p.Limit()) * 100
		seen := pace.Seen{Elapsed: 100 * time.Millisecond, Done: int(min(rate, s.capacity) / 10), Saturated: true}
		if s.refuses {
			seen.Refused = int(rate/10) - seen.Done
		}
		done += seen.Done
		refused += seen.Refused
		p.Observe(seen)
	}
	return p.Limit(), float64(refused) / float64(done+refused)
}

func TestPaceFollowsTheService(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		service   service
		most      int
		low, high int     // the limit after ten seconds
		refused   float64 // share of requests, at most
	}{
		{"endless capacity", service{capacity: 1e9}, 128, 128, 128, 0},
		{"few workers asked for", service{capacity: 1e9}, 3, 3, 3, 0},
		{"a queue at 40 slots", service{capacity: 4000}, 128, 30, 64, 0},
		{"throttled at 40 slots", service{capacity: 4000, refuses: true}, 128, 20, 44, 0.1},
		{"hardly any capacity", service{capacity: 100, refuses: true}, 128, 1, 2, 0.35},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			limit, share := tt.service.run(pace.New(8, tt.most), 10)
			if limit < tt.low || limit > tt.high {
				t.Errorf("limit %d, want %d to %d", limit, tt.low, tt.high)
			}
			if share > tt.refused {
				t.Errorf("%.0f %% of the requests were refused, want at most %.0f %%", 100*share, 100*tt.refused)
			}
		})
	}
}

// bucket is a partition as the service has it: it takes a number of rows a second, and a
// second's worth at once.
type bucket struct {
	rate, tokens float64
	queries      bool       // rows count when they are found, 10 ms later
	found        [2]float64 // rows, by steps of 5 ms
}

// step lets 5 ms pass.
func (b *bucket) step() {
	b.tokens = min(b.rate, b.tokens+b.rate*0.005) - b.found[0]
	b.found = [2]float64{b.found[1]}
}

func (b *bucket) admit(rows int) bool {
	if b.tokens <= 0 {
		return false
	}
	if b.queries {
		b.found[1] += float64(rows)
	} else {
		b.tokens -= float64(rows)
	}
	return true
}

// TestPartitionsFindTheLimit lets processes write to one partition as fast as their
// Partitions allow, and send again what is refused. After a minute, at most a tenth of
// the requests may be refused, and the partition must be busy.
func TestPartitionsFindTheLimit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rate             float64 // rows a second that the partition takes
		rows             int     // in a request
		processes, slots int     // slots: requests that a process has under way at most
		queries          bool
	}{
		{2000, 100, 1, 64, false}, {2000, 1, 1, 128, false}, {2000, 100, 8, 24, false}, {2000, 1000, 4, 16, false}, {500, 100, 1, 64, false}, {300, 100, 3, 16, false},
		{300, 1000, 1, 16, false}, {5000, 100, 1, 128, false}, {5000, 20, 6, 32, false}, {20_000, 100, 1, 128, false},
		{2000, 1000, 1, 8, true}, {200, 10, 2, 12, false}, {20, 1, 1, 64, false},
	} {
		t.Run(fmt.Sprintf("%v rows a second, %d a request, %d processes", tt.rate, tt.rows, tt.processes), func(t *testing.T) {
			t.Parallel()
			type request struct {
				at    time.Time // when it is sent next
				tries int
			}
			all := make([]struct {
				p        pace.Partitions
				requests []request
			}, tt.processes)
			rnd := rand.New(rand.NewPCG(1, 2))
			start := time.Unix(0, 0)
			b := bucket{rate: tt.rate, tokens: tt.rate, queries: tt.queries}
			answered, refused := 0, 0
			for now := start; now.Sub(start) < 4*time.Minute; now = now.Add(5 * time.Millisecond) {
				if now.Sub(start) == time.Minute {
					answered, refused = 0, 0
				}
				b.step()
				for i := range all {
					x := &all[i]
					for len(x.requests) < tt.slots && x.p.Wait("p", now) == 0 {
						x.p.Started("p", tt.rows, now)
						x.requests = append(x.requests, request{at: now})
					}
					left := x.requests[:0]
					for _, r := range x.requests {
						switch {
						case r.at.After(now):
							left = append(left, r)
						case b.admit(tt.rows):
							answered++
							x.p.Answered("p", tt.rows, tt.rows, now)
						default:
							refused++
							pause := x.p.Throttled("p", tt.rows, now)
							if r.tries++; pause == 0 {
								pause = time.Duration(rnd.Float64() * float64(min(time.Minute, 500*time.Millisecond<<min(r.tries, 8))))
							}
							r.at = now.Add(pause)
							left = append(left, r)
						}
					}
					x.requests = left
				}
			}
			took := float64(answered*tt.rows) / 180 / tt.rate
			share := float64(refused) / float64(answered+refused)
			t.Logf("%.1f %% refused, %.0f %% of the limit", 100*share, 100*took)
			if share > 0.1 {
				t.Errorf("%.0f %% of the requests were refused", 100*share)
			}
			if took < 0.8 {
				t.Errorf("only %.0f %% of what the partition takes", 100*took)
			}
		})
	}
}

// TestPartitionsRefuseByChance lets a partition refuse 2 of a hundred requests, whatever the rate. The rate
// must not be brought down by that.
func TestPartitionsRefuseByChance(t *testing.T) {
	t.Parallel()
	for _, rows := range []int{10, 100} {
		rnd := rand.New(rand.NewPCG(3, 4))
		answered, _ := asMuchAsAllowed(rows, 10*time.Minute, func() {}, func() bool { return rnd.Float64() >= 0.02 })
		if rate := float64(answered*rows) / 600; rate < 1500 {
			t.Errorf("it takes %.0f rows a second by requests of %d, want 1500", rate, rows)
		}
	}
}

// TestPartitionsFindALimitThatRose lets a partition take 10 rows a second for ten minutes, and then all.
func TestPartitionsFindALimitThatRose(t *testing.T) {
	t.Parallel()
	const low = 10 * time.Minute
	for _, tt := range []struct {
		rows int
		most time.Duration
	}{{1, time.Minute}, {100, 10 * time.Minute}} {
		b, passed := bucket{rate: 10, tokens: 10}, time.Duration(0)
		_, when := asMuchAsAllowed(tt.rows, low+tt.most, func() { b.step(); passed += 5 * time.Millisecond }, func() bool { return passed > low || b.admit(tt.rows) })
		t.Logf("%d rows a request: %v", tt.rows, when-low)
		if when < low {
			t.Errorf("by requests of %d rows, it has 200 a second after %v, want it between %v and %v", tt.rows, when, low, low+tt.most)
		}
	}
}

// asMuchAsAllowed sends requests for so long, one by one, as soon as Partitions allow it and at most two in 5 ms, which step lets pass. It
// returns how many were admitted, and after how long they had 200 rows a second for the first time, on the mean of ten seconds.
func asMuchAsAllowed(rows int, long time.Duration, step func(), admit func() bool) (answered int, when time.Duration) {
	const window = 10 * time.Second
	var p pace.Partitions
	start := time.Unix(0, 0)
	before := 0 // answered before the window
	for now := start; now.Sub(start) <= long; now = now.Add(5 * time.Millisecond) {
		if now.Sub(start)%window == 0 {
			if when == 0 && (answered-before)*rows >= 200*int(window.Seconds()) {
				when = now.Sub(start)
			}
			before = answered
		}
		step()
		for range 2 {
			if p.Wait("p", now) > 0 {
				break
			}
			p.Started("p", rows, now)
			if !admit() {
				p.Throttled("p", rows, now)
				continue
			}
			p.Answered("p", rows, rows, now)
			answered++
		}
	}
	return answered, when
}
