package engine

import (
	"math"
	"testing"
	"time"

	"tablesweep/internal/engine/ledger"
	"tablesweep/internal/key"
	"tablesweep/internal/proof/keysets"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/scan"
	"tablesweep/internal/scan/adaptive"
)

// told is what a status tells of the time left, in seconds since the scan's beginning.
type told struct{ at, left float64 }

// play makes the scan of a table in virtual time, with so many workers at a second, each of which takes the same time for a
// step. It returns what a status tells of the time left, every 5 seconds, how long the scan took, and hints for the next.
func play(t *testing.T, rows keysets.Table, strategy adaptive.Strategy, step float64, workers func(second float64) int) (all []told, took float64, hints adaptive.Hints) {
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
	var ends []adaptive.PageEnd
	for now := 0.0; len(queue)+len(busy) > 0; now++ {
		for len(busy) > 0 && busy[0].end <= now {
			j := busy[0]
			busy = busy[1:]
			p := rows.Query(j.step)
			o, err := strategy.Advance(j.step, p)
			must(t, err)
			if o.Yield > 0 {
				ends = append(ends, adaptive.PageEnd{Last: p.Keys[o.Yield-1], Rows: o.Yield})
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
			if len(queue) > 0 && len(busy) < workers(j.end) { // the worker goes on at once
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
		if left := p.left(read, float64(read)/float64(rows.Page), ahead); left != nil {
			all = append(all, told{now, *left})
		}
	}
	return all, took, adaptive.NewHints(key.Bounds{}, adaptive.Thin(ends, len(ends)), rows.Page)
}

// TestTimeLeft plays scans of real tables, while instances are added and when there are enough of them. 49 of 50 times that
// are told are right within 2 times, or the few seconds that a step and a rate take, and all within 3 times. They are told for half of the
// scans' second halves. The first scan of a table guesses: nothing bounds how far that is off, so none is told.
func TestTimeLeft(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	const work = 2400 // seconds of one worker
	times, wrong, late, all := 0, 0, 0, 0
	sets := keysets.Real("")
	for _, set := range sets[:testsize.Of(2, len(sets))] {
		rows, err := set.Table(math.MaxInt)
		must(t, err)
		step := work / float64(rows.Pages())
		even := func(float64) int { return 8 }
		guessed, _, hints := play(t, rows, adaptive.Strategy{}, step, even)
		if len(guessed) > 0 {
			t.Errorf("%s: the first scan tells of %v", set.Name, guessed[0])
		}
		for name, workers := range map[string]func(second float64) int{
			"even":       even,
			"doubling":   func(second float64) int { return 1 << min(5, int(second/15)) },
			"one by one": func(second float64) int { return 1 + int(second/20) },
		} {
			told, took, _ := play(t, rows, adaptive.Strategy{Hints: &hints}, step, workers)
			times, all = times+len(told), all+int(took/2/5)
			for _, x := range told {
				left := took - x.at
				if x.at > took/2 {
					late++
				}
				if factor := max(x.left/left, left/x.left); factor > 2 && math.Abs(x.left-left) > step+15 {
					if wrong++; factor > 3 {
						t.Errorf("%s, %s: after %.0f of %.0f s, %.0f s are told", set.Name, name, x.at, took, x.left)
					}
				}
			}
		}
	}
	t.Logf("%d times told, %d wrong, for %d of %d moments of second halves", times, wrong, late, all)
	if times == 0 || wrong > times/50 || late < all/2 {
		t.Errorf("%d of %d times are wrong, and %d of %d moments of second halves have one", wrong, times, late, all)
	}
}
