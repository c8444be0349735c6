package status

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/keysets"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/split/adaptive"
	"tablesweep/internal/split/scan"
)

// TestRatesOf: the rate is the rate of the last minute. The time left is known only if the rate is steady.
func TestRatesOf(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	points := func(rows ...int64) []ledger.Point {
		var all []ledger.Point
		for i, n := range rows {
			all = append(all, ledger.Point{At: began.Add(time.Duration(i) * 10 * time.Second), Rows: n, Requests: 10, Throttled: n % 10})
		}
		return all
	}
	even := slices.Repeat([]int64{100}, 30)
	for _, tt := range []struct {
		name   string
		points []ledger.Point
		after  time.Duration
		rate   float64
		phase  string
		left   float64 // the time left with half of 1,000 rows read; 0 if it is unknown
		scan   ledger.Scan
	}{
		{name: "nothing yet", phase: Working},
		{"began at an interval's end", points(100, 100), 12 * time.Second, 200. / 4, Working, 0, ledger.Scan{Started: began.Add(8 * time.Second)}},
		{"began at this moment", points(100), 8 * time.Second, 100, Working, 0, ledger.Scan{Started: began.Add(8 * time.Second)}},
		{"began by a clock that is slow", points(100, 100), 20 * time.Second, 10, Working, 0, ledger.Scan{Started: began.Add(-time.Hour)}},
		{"began by a clock that is fast", points(100, 100), 20 * time.Second, 10, Working, 0, ledger.Scan{Started: began.Add(time.Hour)}},
		{"resumed just now", append(points(even[:5]...), ledger.Point{At: began.Add(time.Hour), Rows: 300}), time.Hour + 9*time.Second, 100, Working, 0, ledger.Scan{Started: began, Resumed: began.Add(time.Hour + 6*time.Second)}},
		{"resumed without a done step", points(even...), time.Hour + 9*time.Second, 0, Working, 0, ledger.Scan{Started: began, Resumed: began.Add(time.Hour)}},
		{"resumed and stalled", points(even...), time.Hour + 121*time.Second, 0, stalled, 0, ledger.Scan{Started: began, Resumed: began.Add(time.Hour)}},
		{"steady", points(even...), 300 * time.Second, 10, Working, 100, ledger.Scan{Started: began}},
		{"began just now", points(100, 100), 20 * time.Second, 10, Working, 0, ledger.Scan{Started: began}},
		{"began half a minute ago", points(100, 100, 100, 100), 40 * time.Second, 10, Working, 0, ledger.Scan{Started: began}},
		{"in the middle of an interval", points(even...), 305 * time.Second, 550. / 60, Working, 1000 * 60 / 550., ledger.Scan{Started: began}},
		{"no steps for over a minute", points(even...), 400 * time.Second, 0, Working, 0, ledger.Scan{Started: began}},
		{"stalled", points(even...), 430 * time.Second, 0, stalled, 0, ledger.Scan{Started: began}},
		{"became fast", points(append(even[:22:22], 900, 900)...), 240 * time.Second, 2200. / 60, Working, 0, ledger.Scan{Started: began}},
		{"became fast a minute ago", points(append(even[:18:18], 900, 900, 900, 900, 900, 900)...), 240 * time.Second, 90, Working, 1000 / 90., ledger.Scan{Started: began}},
		{"throttled", points(slices.Repeat([]int64{103}, 30)...), 300 * time.Second, 10.3, throttled, 1000 / 10.3, ledger.Scan{Started: began}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var last time.Time
			if n := len(tt.points); n > 0 {
				last = tt.points[n-1].At.Add(10 * time.Second)
			}
			p := ratesOf(tt.scan, tt.points, 10*time.Second, last, began.Add(tt.after))
			if p.rate < tt.rate-0.01 || p.rate > tt.rate+0.01 {
				t.Errorf("got rate %v, want %v", p.rate, tt.rate)
			}
			if got, _ := p.phase(1, 1, Leased{}); got != tt.phase {
				t.Errorf("got phase %s, want %s", got, tt.phase)
			}
			if left := p.secondsLeft(1000, 1, scan.Pages(4)); left != nil {
				t.Errorf("got %v s left with a fifth done, want no estimate", *left)
			}
			left := p.secondsLeft(1000, 1, scan.Pages(1/1.1))
			if (left != nil) != (tt.left > 0) || left != nil && (*left < tt.left-0.1 || *left > tt.left+0.1) {
				t.Errorf("got %v s left, want %v", left, tt.left)
			}
		})
	}
	silent := []ledger.Wait{{Connection: "DATA", Cause: "connection refused"}}
	for want, l := range map[string]Leased{
		"starting:": {},
		"throttled: the storage throttles 20 % of the requests": {Requests: 10, Throttled: 2},
		"waiting: DATA: connection refused":                     {Waiting: silent, Requests: 10, Throttled: 9},
	} {
		if phase, cause := (rates{}).phase(0, 1, l); strings.TrimSpace(phase+": "+cause) != want {
			t.Errorf("leased steps %+v: got phase %s and cause %s, want %s", l, phase, cause, want)
		}
	}
}

// estimate is the time left in a status, and the time of the status; both in seconds, the latter since the scan's beginning.
type estimate struct{ at, left float64 }

// play runs the scan of a table in virtual time. The function `workers` returns the number of workers at a second. Each worker takes the
// same time for a step. play returns the estimated time left every 5 seconds, the scan's duration, and hints for the next scan.
func play(t *testing.T, rows keysets.Table, strategy adaptive.Strategy, step float64, workers func(second float64) int) (all []estimate, took float64, hints scan.Hints) {
	t.Helper()
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(s float64) time.Time { return began.Add(time.Duration(s * float64(time.Second))) }
	type job struct {
		step scan.Step
		end  float64
	}
	first := strategy.Start(key.Bounds{})
	queue, busy := []scan.Step{first}, []job{}
	ahead, read := adaptive.Ahead(first), int64(0)
	var points []ledger.Point
	var ends []scan.PageEnd
	for now := 0.0; len(queue)+len(busy) > 0; now++ {
		for len(busy) > 0 && busy[0].end <= now {
			j := busy[0]
			busy = busy[1:]
			p := rows.Query(j.step)
			o, err := strategy.Advance(j.step, p)
			proof.Must(t, err)
			if o.Yield > 0 {
				ends = append(ends, scan.PageEnd{Last: p.Keys[o.Yield-1], Rows: o.Yield})
			}
			read, took = read+int64(o.Yield), j.end
			if slot := at(took).Truncate(5 * time.Second); len(points) == 0 || points[len(points)-1].At.Before(slot) {
				points = append(points, ledger.Point{At: slot})
			}
			points[len(points)-1].Rows += int64(o.Yield)
			ahead = ahead.Minus(adaptive.Ahead(j.step))
			for _, c := range o.Children {
				ahead = ahead.Plus(adaptive.Ahead(c))
				queue = append(queue, c)
			}
			if len(queue) > 0 && len(busy) < workers(j.end) { // the worker continues immediately
				busy, queue = append(busy, job{queue[0], j.end + step}), queue[1:]
			}
		}
		for len(queue) > 0 && len(busy) < workers(now) {
			busy, queue = append(busy, job{queue[0], now + step}), queue[1:]
		}
		if math.Mod(now, 5) > 0 || len(queue)+len(busy) == 0 {
			continue
		}
		p := ratesOf(ledger.Scan{Started: began}, points, 5*time.Second, at(took), at(now))
		if left := p.secondsLeft(read, float64(read)/float64(rows.Page), ahead); left != nil {
			all = append(all, estimate{now, *left})
		}
	}
	return all, took, scan.NewHints(key.Bounds{}, scan.Thin(ends, len(ends)), rows.Page)
}

// TestTimeLeft plays scans of real tables, while instances are added and when there are enough of them. Of 50 estimates, 49 are right
// within a factor of 2, or within the few seconds of a step and a rate. All are right within a factor of 3. There are estimates for half
// of the second half of each scan. The first scan of a table does not know the remaining work, so it has no estimates.
func TestTimeLeft(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	const work = 2400 // in seconds of one worker
	times, wrong, late, all := 0, 0, 0, 0
	sets := keysets.Real("")
	for _, set := range sets[:testsize.Of(2, len(sets))] {
		rows, err := set.Table(math.MaxInt)
		proof.Must(t, err)
		step := work / float64(rows.Pages())
		even := func(float64) int { return 8 }
		first, _, hints := play(t, rows, adaptive.Strategy{}, step, even)
		if len(first) > 0 {
			t.Errorf("table %s: the first scan shows the time left %v, want none", set.Name, first[0])
		}
		for name, workers := range map[string]func(second float64) int{
			"even":       even,
			"doubling":   func(second float64) int { return 1 << min(5, int(second/15)) },
			"one by one": func(second float64) int { return 1 + int(second/20) },
		} {
			estimates, took, _ := play(t, rows, adaptive.Strategy{Hints: &hints}, step, workers)
			times, all = times+len(estimates), all+int(took/2/5)
			for _, x := range estimates {
				left := took - x.at
				if x.at > took/2 {
					late++
				}
				if factor := max(x.left/left, left/x.left); factor > 2 && math.Abs(x.left-left) > step+15 {
					if wrong++; factor > 3 {
						t.Errorf("%s, %s: after %.0f of %.0f s, the status shows %.0f s left", set.Name, name, x.at, took, x.left)
					}
				}
			}
		}
	}
	t.Logf("%d estimates, of which %d are wrong; %d of %d moments in second halves have one", times, wrong, late, all)
	if times == 0 || wrong > times/50 || late < all/2 {
		t.Errorf("%d of %d estimates are wrong, and %d of %d moments in second halves have one", wrong, times, late, all)
	}
}
