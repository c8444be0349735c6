package pace_test

import (
	"testing"
	"time"

	"tablesweep/internal/pace"
)

// service answers requests at 100 a second and slot, up to its capacity.
type service struct {
	capacity float64 // requests a second
	refuses  bool    // throttles beyond its capacity instead of queueing
}

// run lets a pace work against the service for a number of seconds and returns
// the limit that it ended with and the share of time throttled.
func (s service) run(p *pace.Pace, seconds int) (limit int, throttled float64) {
	const interval = 100 * time.Millisecond
	times := 0
	for range seconds * 10 {
		rate := float64(p.Limit()) * 100
		busy := s.refuses && rate > s.capacity
		if busy {
			times++
		}
		p.Observe(interval, int(min(rate, s.capacity)/10), true, busy)
	}
	return p.Limit(), float64(times) / float64(seconds*10)
}

func TestPaceFollowsTheService(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		service   service
		most      int
		low, high int // the limit after ten seconds
	}{
		{"endless capacity", service{capacity: 1e9}, 128, 128, 128},
		{"few workers asked for", service{capacity: 1e9}, 3, 3, 3},
		{"a queue at 40 slots", service{capacity: 4000}, 128, 30, 64},
		{"throttled at 40 slots", service{capacity: 4000, refuses: true}, 128, 20, 44},
		{"hardly any capacity", service{capacity: 100, refuses: true}, 128, 1, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			limit, throttled := tt.service.run(pace.New(8, tt.most), 10)
			if limit < tt.low || limit > tt.high {
				t.Errorf("limit %d, want %d to %d", limit, tt.low, tt.high)
			}
			if throttled > 0.25 {
				t.Errorf("throttled %.0f %% of the time", 100*throttled)
			}
		})
	}
}

func TestPaceRecovers(t *testing.T) {
	t.Parallel()
	p := pace.New(8, 64)
	service{capacity: 200, refuses: true}.run(p, 5)
	low := p.Limit()
	if high, _ := (service{capacity: 1e9}).run(p, 60); low > 4 || high != 64 {
		t.Errorf("limit %d while busy, want at most 4; %d after it, want 64", low, high)
	}
}

func TestPaceIgnoresTimesWithoutWork(t *testing.T) {
	t.Parallel()
	p := pace.New(8, 64)
	before := p.Limit()
	for range 100 {
		p.Observe(time.Second, 100, false, false)
	}
	if p.Limit() != before {
		t.Errorf("limit %d, want %d: nothing shows that more would pay", p.Limit(), before)
	}
}

func TestPartitions(t *testing.T) {
	t.Parallel()
	var p pace.Partitions
	if !p.Allow("hot", 1000) {
		t.Fatal("limited before any throttling")
	}
	p.Throttled("hot", 16)
	if p.Allow("hot", 8) || !p.Allow("hot", 7) || !p.Allow("other", 1000) {
		t.Error("after throttling at 16 under way: want at most 8 for it, no limit for others")
	}
	p.Throttled("hot", 16) // the same load, still being refused
	if !p.Allow("hot", 7) {
		t.Error("one burst was counted twice")
	}
	for range 1000 {
		p.Answered("hot")
	}
	if !p.Allow("hot", 1000) {
		t.Error("still limited after a thousand good answers")
	}
	for range 20 {
		p.Throttled("hot", 1)
		p.Answered("hot")
	}
	if !p.Allow("hot", 0) {
		t.Error("a partition must be allowed one request")
	}
}
