package progress

import (
	"slices"
	"time"
)

// window is the time over which the shown rate is measured.
const window = 5 * time.Second

type rates struct{ samples []sample } // the first sample was taken when the phase began

type sample struct {
	at   time.Duration
	rows int64
}

// add adds a sample: how many rows are done at a given time. Times must not decrease.
func (r *rates) add(at time.Duration, rows int64) {
	if r.samples == nil {
		r.samples = []sample{{}}
	}
	r.samples = append(r.samples, sample{at, rows})
}

// rateOver returns the average rate during the newest part of the phase. The argument `last` is the length of this part.
func (r *rates) rateOver(last time.Duration) float64 {
	to := r.samples[len(r.samples)-1]
	i, exact := slices.BinarySearchFunc(r.samples, to.at-last, func(s sample, at time.Duration) int { return int(s.at - at) })
	if !exact && i > 0 {
		i--
	}
	from := r.samples[i]
	if to.at <= from.at {
		return 0
	}
	return float64(to.rows-from.rows) / (to.at - from.at).Seconds()
}

// steadyRate returns the rate during the last quarter of the elapsed time. The result `ok` is false if the elapsed time
// is too short to estimate the time left, or if the rate changes too much.
func (r *rates) steadyRate() (rate float64, ok bool) {
	const least, young, changes = 10 * time.Second, 20 * time.Second, 1.5
	elapsed := r.samples[len(r.samples)-1].at
	rate = r.rateOver(max(least, elapsed/4))
	before := r.rateOver(max(least, elapsed/2))
	return rate, elapsed > young && rate > 0 && rate < changes*before && before < changes*rate
}
