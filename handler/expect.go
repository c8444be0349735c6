package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"tablesweep/internal/estimate/survey"
	"tablesweep/internal/progress"
	"tablesweep/internal/storage"
	"tablesweep/internal/sweep"
)

// What it costs to show how far a long sweep is. Sweeps that end sooner or use few
// requests at once cost nothing.
const (
	surveyAfter   = 10 * time.Second
	surveyWorkers = 64
	surveyQueries = 500
	surveyTime    = 20 * time.Second
)

// expect finds out in the background how many rows a sweep has, for the meter. What it
// returns ends that, and must be called.
func expect(c *cobra.Command, s sweep.Scan, workers int, m *progress.Meter, after time.Duration) (stop func()) {
	if s.Keys != nil || workers < surveyWorkers || !m.Shows() {
		return func() {}
	}
	ctx, cancel := context.WithCancel(c.Context())
	ended := make(chan struct{})
	go func() { // ends with the survey or with stop
		defer close(ended)
		select {
		case <-time.After(after):
		case <-ctx.Done():
			return
		}
		q := storage.Query{Range: s.Bounds.Range(), Filter: s.Filter, Top: s.Segment}
		e, _, err := survey.Rows(ctx, s.Table, q, survey.Effort{Queries: surveyQueries, Time: surveyTime})
		if err == nil { // the sweep itself tells of errors
			m.Expect(e.Rows.Low, e.Rows.High)
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}
