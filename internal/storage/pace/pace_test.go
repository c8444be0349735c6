package pace_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"tablesweep/internal/storage/pace"
)

// service answers 100 requests a second for each concurrent request, up to its capacity.
type service struct {
	capacity float64 // requests a second
	refuses  bool    // refuses requests beyond its capacity instead of delaying them
}

// run lets a pace control requests to the service for a number of seconds. It returns the last limit, and the share of refused requests.
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
		refused   float64 // maximum share of refused requests
	}{
		{"endless capacity", service{capacity: 1e9}, 128, 128, 128, 0},
		{"a low maximum", service{capacity: 1e9}, 3, 3, 3, 0},
		{"a queue at 40 slots", service{capacity: 4000}, 128, 30, 64, 0},
		{"throttled at 40 slots", service{capacity: 4000, refuses: true}, 128, 20, 44, 0.1},
		{"hardly any capacity", service{capacity: 100, refuses: true}, 128, 1, 2, 0.35},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			limit, share := tt.service.run(pace.New(8, tt.most), 10)
			if limit < tt.low || limit > tt.high {
				t.Errorf("got limit %d, want %d to %d", limit, tt.low, tt.high)
			}
			if share > tt.refused {
				t.Errorf("%.0f %% of the requests were refused, want at most %.0f %%", 100*share, 100*tt.refused)
			}
		})
	}
}

// bucket is a partition as the service limits it: it accepts a number of rows a second, and that many in a burst.
type bucket struct {
	rate, tokens float64
	queries      bool       // a query's rows count when they are found, 10 ms after its start
	found        [2]float64 // rows by steps of 5 ms
}

// step advances the time by 5 ms.
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

// TestPartitionsFindTheLimit lets processes write to one partition as fast as their Partitions allow, and repeat refused requests. After a
// minute, at most a tenth of the requests may be refused, and the partition must be nearly fully used.
func TestPartitionsFindTheLimit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rate             float64 // rows a second that the partition accepts
		rows             int     // rows in a request
		processes, slots int     // slots is a process's maximum of concurrent requests
		queries          bool
	}{
		{2000, 100, 1, 64, false}, {2000, 1, 1, 128, false}, {2000, 100, 8, 24, false}, {2000, 1000, 4, 16, false}, {500, 100, 1, 64, false}, {300, 100, 3, 16, false},
		{300, 1000, 1, 16, false}, {5000, 100, 1, 128, false}, {5000, 20, 6, 32, false}, {20_000, 100, 1, 128, false},
		{2000, 1000, 1, 8, true}, {200, 10, 2, 12, false}, {20, 1, 1, 64, false},
	} {
		t.Run(fmt.Sprintf("%v rows a second, %d a request, %d processes", tt.rate, tt.rows, tt.processes), func(t *testing.T) {
			t.Parallel()
			type request struct {
				at    time.Time // time of the next try
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
			t.Logf("%.1f %% of the requests refused, %.0f %% of the limit used", 100*share, 100*took)
			if share > 0.1 {
				t.Errorf("%.0f %% of the requests were refused, want at most a tenth", 100*share)
			}
			if took < 0.8 {
				t.Errorf("only %.0f %% of the partition's limit was used", 100*took)
			}
		})
	}
}

// TestRefusalsByChanceDoNotLowerTheRate: if a partition refuses 2 of a hundred requests at any rate, the rate must not fall.
func TestRefusalsByChanceDoNotLowerTheRate(t *testing.T) {
	t.Parallel()
	for _, rows := range []int{10, 100} {
		rnd := rand.New(rand.NewPCG(3, 4))
		answered, _ := asMuchAsAllowed(rows, 10*time.Minute, func() {}, func() bool { return rnd.Float64() >= 0.02 })
		if rate := float64(answered*rows) / 600; rate < 1500 {
			t.Errorf("got %.0f rows a second with requests of %d rows, want 1500", rate, rows)
		}
	}
}

// TestPartitionsFindARaisedLimit lets a partition accept 10 rows a second for ten minutes, and later any number.
func TestPartitionsFindARaisedLimit(t *testing.T) {
	t.Parallel()
	const low = 10 * time.Minute
	for _, tt := range []struct {
		rows int
		most time.Duration
	}{{1, time.Minute}, {100, 10 * time.Minute}} {
		b, passed := bucket{rate: 10, tokens: 10}, time.Duration(0)
		_, when := asMuchAsAllowed(tt.rows, low+tt.most, func() { b.step(); passed += 5 * time.Millisecond }, func() bool { return passed > low || b.admit(tt.rows) })
		t.Logf("with %d rows a request, 200 rows a second were reached after %v", tt.rows, when-low)
		if when < low {
			t.Errorf("with requests of %d rows, 200 rows a second were reached after %v, want %v to %v", tt.rows, when, low, low+tt.most)
		}
	}
}

// asMuchAsAllowed sends requests for the given time, one after another, as soon as Partitions allows, and at most two in each step of 5
// ms. It returns the number of admitted requests, and the time until they first had 200 rows a second on average over ten seconds.
func asMuchAsAllowed(rows int, long time.Duration, step func(), admit func() bool) (answered int, when time.Duration) {
	const window = 10 * time.Second
	var p pace.Partitions
	start := time.Unix(0, 0)
	before := 0 // number of answers before the ten seconds
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
