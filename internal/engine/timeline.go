package engine

import (
	"context"
	"time"

	"tablesweep/internal/engine/ledger"
)

// Timeline shows a scan's work over time.
type Timeline struct {
	At       time.Time      `json:"at"`       // when it was read; a few seconds ago
	Interval float64        `json:"interval"` // of a point, in seconds
	Points   []ledger.Point `json:"points"`
}

// Timeline returns a scan's timeline: at most 240 points in order of time. Intervals without work have no point.
func (e *Engine) Timeline(ctx context.Context, id string) (Timeline, error) {
	found, err := e.detail(ctx, id)
	if err != nil {
		return Timeline{}, err
	}
	return Timeline{At: found.Date, Interval: found.Sums.Times.Interval().Seconds(), Points: found.Sums.Times.Points()}, nil
}
