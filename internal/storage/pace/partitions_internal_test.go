package pace

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// TestMeasure shows the result of a measurement for a rate of 1,000 rows a second.
func TestMeasure(t *testing.T) {
	t.Parallel()
	const second = time.Second
	for _, tt := range []struct {
		name              string
		took              time.Duration
		answered, refused int
		rows              float64
		want              float64 // rows a second; 0 if the measurement continues
	}{
		{"too short", second - 1, 10, 0, 1000, 0},
		{"long enough", second, 10, 0, 1000, 1030},
		{"too few requests", second, 9, 0, 1000, 0},
		{"few requests, nearly ten seconds", 10*second - 1, 9, 0, 10_000, 0},
		{"few requests in ten seconds", 10 * second, 9, 0, 10_000, 1063},
		{"grows with the time", 2 * second, 100, 0, 2000, 1060},
		{"grows with the requests", 3 * second, 10, 0, 3000, 1070},
		{"half of the rate used", second, 10, 0, 500, 1000},
		{"more than half of the rate used", second, 10, 0, 501, 1030},
		{"half of the rate used, in two seconds", 2 * second, 10, 0, 1000, 1000},
		{"a twentieth refused", second, 19, 1, 900, 1030},
		{"more than a twentieth refused, perhaps by chance", second, 18, 2, 800, 0},
		{"the same in nearly ten seconds", 10*second - 1, 18, 2, 8000, 0},
		{"the same in ten seconds", 10 * second, 18, 2, 8000, 760},
		{"many more than a twentieth refused", second, 16, 4, 800, 765},
		{"refused, in two seconds", 2 * second, 10, 10, 1600, 792},
		{"most requests refused", second, 10, 10, 400, 500},
		{"refused, and more answered than allowed", second, 10, 10, 2000, 1000},
		{"all refused", time.Hour, 0, 50, 0, 0},
		{"one answered after a long time", 50 * second, 1, 50, 1000, 500},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			now := time.Unix(1000, 0)
			l := partition{Limit: Limit{rate: 1000, ahead: ahead, filled: now}, began: now.Add(-tt.took), answered: tt.answered, refused: tt.refused, rows: tt.rows}
			l.measure(now)
			again := l.answered == 0 && l.refused == 0 && l.rows == 0
			if again != (tt.want > 0) || math.Abs(l.rate-max(tt.want, 500)) > 1e-6 && tt.want > 0 || tt.want == 0 && l.rate != 1000 {
				t.Errorf("the rate is %v, want %v; measurement %v", l.rate, tt.want, again)
			}
		})
	}
}

// TestMeasureBeginsLater: requests that are repeated at the old rate end before the new rate is measured.
func TestMeasureBeginsLater(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	for budget, want := range map[float64]time.Duration{-2999: 6 * time.Second, -100_000: patient} {
		l := partition{Limit: Limit{rate: 1000, budget: budget, ahead: ahead, filled: now}, began: now.Add(-time.Second), answered: 10, refused: 10, rows: 500}
		l.measure(now)
		if later := l.began.Sub(now); l.rate != 500 || later != want {
			t.Errorf("with a budget of %v, the measurement of %v rows a second begins after %v, want %v", budget, l.rate, later, want)
		}
		l.refused, l.answered, l.rows = 5, 5, 5
		if l.measure(l.began.Add(-1)); l.refused+l.answered != 0 || l.rows != 0 {
			t.Errorf("requests before the measurement were counted: %+v", l)
		}
		if l.answered = 5; l.began.After(now) {
			if l.measure(l.began); l.answered != 5 {
				t.Error("requests at the beginning of the measurement were not counted")
			}
		}
	}
	slow := partition{Limit: Limit{rate: 15, ahead: ahead, filled: now}, began: now.Add(-time.Second), answered: 5, refused: 5, rows: 5}
	if slow.measure(now); slow.rate != lowest {
		t.Errorf("the rate is %v, want at least %v", slow.rate, lowest)
	}
}

// TestIdlePartitionsAreDropped: if there are many partitions, those that were idle for a minute are dropped.
func TestIdlePartitionsAreDropped(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	var p Partitions
	p.Throttled("first", 1, now) // searches for idle partitions, and finds none
	if p.many != 1000 {
		t.Errorf("the next search is at %d partitions, want 1000", p.many)
	}
	for i := range 999 {
		p.Throttled(fmt.Sprint(i), 1, now.Add(time.Duration(1+i%2)))
	}
	if len(p.limits) != 1000 {
		t.Fatalf("got %d partitions, want 1000", len(p.limits))
	}
	p.Throttled("last", 1, now.Add(idle+1))
	if _, ok := p.limits["first"]; ok || len(p.limits) != 1000 { // a partition that is idle for exactly a minute is kept
		t.Errorf("%d partitions remain, the first of them %v; want 999 and the new one", len(p.limits), ok)
	}
	if p.many != 2*999 {
		t.Errorf("the next search is at %d partitions, want %d", p.many, 2*999)
	}
}

// TestBudget: rows that were sent reduce the budget, which is at most a tenth of a second's rows.
func TestBudget(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	var p Partitions
	p.Throttled("p", 100, now)
	if w := p.Wait("p", now); w != time.Millisecond { // a row takes 0.5 ms
		t.Errorf("without a budget, the wait is %v, want 1 ms", w)
	}
	now = now.Add(time.Second / 2)
	p.Started("p", 199, now)
	if w := p.Wait("p", now); w != 0 {
		t.Errorf("with a budget of one row, the wait is %v, want 0", w)
	}
	p.Started("p", 2000, now)
	if w := p.Wait("p", now); w != time.Second {
		t.Errorf("with 1999 rows too many, the wait is %v, want 1 s", w)
	}
	p.Answered("p", 2000, 400, now)
	if w := p.Wait("p", now); w != 200*time.Millisecond {
		t.Errorf("with 399 rows too many, the wait is %v, want 200 ms", w)
	}
}
