package engine

import (
	"context"
	"time"
)

// Timeline shows a scan's work over time.
type Timeline struct {
	At       time.Time       `json:"at"`       // when it was read; a few seconds ago
	Interval float64         `json:"interval"` // of a point, in seconds
	Points   []TimelinePoint `json:"points"`
}

// TimelinePoint is the work of one interval.
type TimelinePoint struct {
	At        time.Time `json:"at"` // when it begins
	Rows      int64     `json:"rows"`
	Requests  int64     `json:"requests"`
	Throttled int64     `json:"throttled"`
}

// Timeline returns a scan's timeline: at most 240 points in order of time. Intervals without work have
// no point.
func (e *Engine) Timeline(ctx context.Context, id string) (Timeline, error) {
	found, err := e.detail(ctx, id)
	if err != nil {
		return Timeline{}, err
	}
	t := Timeline{At: found.Date, Interval: found.Sums.Times.Interval().Seconds(), Points: []TimelinePoint{}}
	for _, p := range found.Sums.Times.Points() {
		t.Points = append(t.Points, TimelinePoint{At: p.At, Rows: p.Rows, Requests: p.Requests, Throttled: p.Throttled})
	}
	return t, nil
}
