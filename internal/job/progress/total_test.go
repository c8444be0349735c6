package progress_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/job/progress"
	"tablesweep/internal/job/sweep"
)

// progressWith returns the progress of a sweep that does 1,000 rows a second and makes the given number of requests for each query.
func progressWith(seconds int, requests int64) sweep.Progress {
	p := progressAt(seconds)
	p.Run.Queries = 1 + int64(seconds)
	p.Run.Requests = p.Run.Queries * requests
	return p
}

// TestCountBeside checks that rows are counted only if this is worthwhile, and that the share done and the time left are shown once the count has
// ended.
func TestCountBeside(t *testing.T) {
	t.Parallel()
	const rows = 100_000
	for _, tt := range []struct {
		name     string
		style    progress.Style
		requests int64
		removes  bool
		found    int64
		err      error
		took     int     // the duration of the count, in seconds
		begins   int     // the second at which the count begins; 0 if there is no count
		percent  float64 // the share after 50 s; 0 if none is shown
		left     float64
	}{
		{"copied", progress.JSON, 11, false, rows, nil, 5, 10, 50, 50},
		{"nobody looks", progress.None, 11, false, rows, nil, 5, 0, 0, 0},
		{"the count would cost as much", progress.JSON, 2, false, rows, nil, 5, 0, 0, 0},
		{"the count fails", progress.JSON, 11, false, 0, errors.New("busy"), 5, 10, 0, 0},
		{"rows were added since", progress.JSON, 11, false, 40_000, nil, 5, 10, 0, 0},
		{"a deletion removed 3,000 rows during the count, which misses 2,000 of them", progress.JSON, 11, true, rows - 12_000, nil, 3, 10, 49.5, 51},
		{"a deletion removed too many rows during the count", progress.JSON, 11, true, 50_000, nil, 5, 10, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				m := meter(&out, tt.style)
				m.Phase("copying")
				begins, began := 0, time.Now()
				m.CountBeside(t.Context(), func(context.Context) (int64, error) {
					begins = int(time.Since(began).Seconds())
					time.Sleep(time.Duration(tt.took)*time.Second - time.Millisecond)
					return tt.found, tt.err
				}, tt.removes)
				for second := range 51 {
					synctest.Wait()
					m.Show(progressWith(second, tt.requests))
					time.Sleep(time.Second)
				}
				if begins != tt.begins {
					t.Errorf("the count begins after %d s, want %d", begins, tt.begins)
				}
				var f progress.Figures
				if tt.style != progress.None {
					f = lastLine(t, &out)
				}
				percent, left := 0.0, 0.0
				if f.Percent != nil {
					percent = *f.Percent
				}
				if f.Left != nil {
					left = *f.Left
				}
				if percent != tt.percent || left != tt.left {
					t.Errorf("got %v %% and %v s left; want %v %% and %v s", percent, left, tt.percent, tt.left)
				}
			})
		})
	}
}

// TestTimeLeftNeedsASteadyRate stalls the work for half a minute, as in an outage. The time left must not be shown until the rate has been steady
// again.
func TestTimeLeftNeedsASteadyRate(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	m := meter(&out, progress.JSON)
	m.Expect(200_000)
	shown := map[int]bool{}
	for s, rows := 0, int64(0); rows < 200_000; s++ {
		if s < 40 || s >= 70 {
			rows += 1000
		}
		p := progressAt(s)
		p.Rows, p.Run.Rows = rows, rows
		m.Show(p)
		if s%5 != 0 || s == 0 {
			continue
		}
		f := lastLine(t, &out)
		if f.Left == nil {
			continue
		}
		shown[s] = true
		if truth := float64(200_000-rows) / 1000; (s < 40 || s >= 70) && (*f.Left < truth/1.5-1 || *f.Left > truth*1.5+1) {
			t.Errorf("after %d s: %v s left, want %v", s, *f.Left, truth)
		}
	}
	for s, want := range map[int]bool{15: false, 30: true, 55: false, 75: false, 150: true, 200: true} {
		if shown[s] != want {
			t.Errorf("after %d s, the time left is shown: %v", s, shown[s])
		}
	}
}
