package pace

import (
	"math"
	"testing"
	"time"
)

// TestPaceMeasures shows when a measurement counts, and that it measures a rate.
func TestPaceMeasures(t *testing.T) {
	t.Parallel()
	type observed struct {
		elapsed time.Duration
		done    int
		want    int // the limit after the measurement
	}
	const idle = "the limit was never reached"
	for name, all := range map[string][]observed{
		"too short":        {{minMeasure - 1, 100, 8}},
		"too few requests": {{time.Second, 15, 8}},
		"enough":           {{minMeasure, 16, 12}},
		"nothing gained":   {{minMeasure, 16, 12}, {2 * minMeasure, 32, 8}},
		"gained":           {{minMeasure, 16, 12}, {2 * minMeasure, 48, 18}},
		"throughput grew by a quarter of the step": {{minMeasure, 16, 12}, {time.Second, 360, 18}}, // 320 requests a second before; half as many again would be the full gain
		"less gained": {{minMeasure, 16, 12}, {time.Second, 359, 8}},
		idle:          {{minMeasure, 16, 8}, {time.Second, 1000, 8}},
	} {
		p := New(8, 64)
		for i, o := range all {
			if p.Observe(Seen{Elapsed: o.elapsed, Done: o.done, Saturated: name != idle}); p.Limit() != o.want {
				t.Errorf("%s: the limit is %d after measurement %d, want %d", name, p.Limit(), i+1, o.want)
			}
		}
	}
}

// TestPacePausesAfterALimit: after a limit was found, six measurements pass before the next step up, which is small.
func TestPacePausesAfterALimit(t *testing.T) {
	t.Parallel()
	p := New(58, 64)
	p.Observe(Seen{Elapsed: minMeasure, Done: 10, Waits: true})
	for i := range calm + 1 {
		if p.Limit() != 40 {
			t.Errorf("the limit is %d after %d measurements, want 40", p.Limit(), i)
		}
		p.Observe(Seen{Elapsed: time.Second, Done: 100, Saturated: true})
	}
	if p.Limit() != 44 {
		t.Errorf("the limit is %d, want 44", p.Limit())
	}
}

// TestJudge shows the result of measurements of refusals for a limit of 100 with a floor of 0.02. Each concurrent request makes
// 1,000 requests a second.
func TestJudge(t *testing.T) {
	t.Parallel()
	type seen struct {
		done, refused int
		limit         int     // the limit after the measurements
		floor         float64 // the floor after the measurements
	}
	stale := seen{100, 0, 49, 0.02} // requests that were sent before the step down
	for name, all := range map[string][]seen{
		"too few requests to decide":                {{100, 99, 100, 0.02}},
		"slightly above the floor":                  {{189, 11, 100, 0.02}},
		"below the floor":                           {{200, 0, 100, 0.0175}},
		"too many":                                  {{140, 60, 49, 0.02}},
		"far too many refusals":                     {{139, 61, 70, 0}},
		"after a trial, as many refusals":           {{180, 20, 49, 0.02}, stale, {123, 6, 100, 6.0 / 129}},
		"after a trial, too few requests to decide": {{180, 20, 49, 0.02}, stale, {128, 0, 49, 0.02}},
		"after a trial, few refusals":               {{180, 20, 49, 0.02}, stale, {127, 2, 49, 0}, {49, 0, 49, 0}, {100, 0, 49, 0}},
		"after a trial, far too many refusals":      {{180, 20, 49, 0.02}, stale, {80, 49, 34, 0}},
		"after two trials, as many refusals":        {{180, 20, 49, 0.02}, stale, {115, 14, 24, 0.02}, {49, 0, 24, 0.02}, {120, 15, 100, 15.0 / 135}},
		"after two trials, few refusals":            {{180, 20, 49, 0.02}, stale, {115, 14, 24, 0.02}, {49, 0, 24, 0.02}, {133, 2, 24, 0}},
		"requests before the trial do not count":    {{180, 20, 49, 0.02}, {50, 49, 49, 0.02}, {1, 0, 49, 0.02}, {123, 6, 100, 6.0 / 129}},
	} {
		p := New(100, 100)
		p.floor, p.warming = 0.02, false
		for i, s := range all {
			slots := time.Duration(p.Limit())
			p.Observe(Seen{Elapsed: time.Duration(s.done+s.refused) * time.Millisecond / slots, Done: s.done, Refused: s.refused, Saturated: true})
			if p.Limit() != s.limit || math.Abs(p.floor-s.floor) > 1e-9 {
				t.Errorf("%s: after %d measurements the limit is %d and the floor %v; want %d and %v", name, i+1, p.Limit(), p.floor, s.limit, s.floor)
			}
		}
	}
	for warming, want := range map[bool]int{false: 49, true: 24} { // half of the load gets as many answers; the first rate is ignored
		p := New(100, 100)
		p.warming = warming
		for range 3 {
			p.Observe(Seen{Elapsed: time.Millisecond, Done: 180, Refused: 20, Saturated: true})
		}
		if p.Limit() != want {
			t.Errorf("at the beginning %v: with as many answers in the trial, the limit is %d, want %d", warming, p.Limit(), want)
		}
	}
	p := New(100, 100)
	for range 10 { // slow requests: a measurement ends after a second
		p.Observe(Seen{Elapsed: longest / 10, Done: 3, Refused: 2})
	}
	if p.Limit() != 70 {
		t.Errorf("after a second of slow requests, the limit is %d, want 70", p.Limit())
	}
}
