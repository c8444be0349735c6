package engine

import (
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/life"
	"tablesweep/internal/scans/schedule"
	"tablesweep/internal/scans/status"
	"tablesweep/internal/scans/step"
)

// Engine runs scans. It is safe for concurrent use. The package comment lists the parts of an engine.
type Engine struct {
	*scans.Scans
	*status.Reader
	*life.Checker
	*life.Life
	*life.Upkeep
	*step.Steps
	*schedule.Scheduler
}

// New returns an engine with the app's schedules. Call [scans.Scans.TryPrepare] before any of the engine's methods.
func New(o scans.Options, schedules ...schedule.Schedule) (*Engine, error) {
	all, err := scans.New(o)
	if err != nil {
		return nil, err
	}
	reader, checker := status.New(all), life.NewChecker(all)
	lives := life.New(all, reader, checker)
	upkeep, err := life.NewUpkeep(all, lives)
	if err != nil {
		return nil, err
	}
	return &Engine{all, reader, checker, lives, upkeep, step.New(all, lives), schedule.New(all, reader, lives, schedules)}, nil
}
