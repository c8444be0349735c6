package sweep

import (
	"math"
	"testing"
	"testing/synctest"

	"tablesweep/internal/adaptive"
	"tablesweep/internal/pace"
	"tablesweep/internal/scan"
)

// The share that is told over the second half of a sweep of real keys.
func TestShareIsBelievable(t *testing.T) {
	t.Parallel()
	rows := sourceTree(t)
	synctest.Test(t, func(t *testing.T) {
		_, source := openTree(t, rows, "seed=2; latency=500ms..1500ms")
		told, looks, wrong, last := 0, 0, 0.0, 0.0
		o := Options{Workers: 64, Watch: func(p Progress) {
			share, ok := p.Share()
			if ok && share < last {
				t.Errorf("the share fell from %.2f to %.2f", last, share)
			}
			if ok {
				last = share
			}
			truth := float64(p.Rows) / float64(len(rows))
			if p.Ended || truth < 0.5 {
				return
			}
			looks++
			if ok {
				told++
				wrong += math.Abs(share - truth)
			}
		}}
		r := newRun(Scan{Table: source, Strategy: adaptive.Strategy{}, Segment: 10, Select: []string{}}, o, nothing{}, false)
		r.source.pace = pace.Fixed(64)
		if _, err := r.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Logf("told at %d of %d looks, %.1f points off", told, looks, 100*wrong/float64(told))
		if looks < 8 || told*10 < looks*8 || wrong > 0.1*float64(told) {
			t.Errorf("told at %d of %d looks, %.1f points off; want 8 of 10 and 10 at most", told, looks, 100*wrong/float64(told))
		}
	})
}

// Strategies that believe nothing tell no share, nor do steps whose keys are given.
func TestShareIsUnknown(t *testing.T) {
	t.Parallel()
	rows := someOf(sourceTree(t), 8)
	synctest.Test(t, func(t *testing.T) {
		_, source := openTree(t, rows, "latency=1s")
		for _, s := range []scan.Strategy{scan.Serial{}, scan.Prefix{}} {
			looks := 0
			o := Options{Workers: 2, Watch: func(p Progress) {
				looks++
				if share, ok := p.Share(); ok && !p.Ended {
					t.Errorf("%T told a share of %.2f", s, share)
				}
			}}
			if _, err := Count(t.Context(), Scan{Table: source, Strategy: s, Segment: 50}, o); err != nil || looks < 5 {
				t.Errorf("%d looks, %v", looks, err)
			}
		}
	})
}
