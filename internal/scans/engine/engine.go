package engine

// Engine runs scans: it has all rooms, each with those below it. It is safe for concurrent use.
type Engine struct {
	*Scans
	*Reader
	*Checker
	*Life
	*Upkeep
	*Steps
	*Scheduler
}

// New returns an engine. Call [Scans.TryPrepare] before its other methods.
func New(o Options) (*Engine, error) {
	scans, err := newScans(o)
	if err != nil {
		return nil, err
	}
	status := newReader(scans)
	life := newLife(scans, status)
	upkeep, err := newUpkeep(life)
	if err != nil {
		return nil, err
	}
	return &Engine{scans, status, life.checker, life, upkeep, newSteps(life), newScheduler(life)}, nil
}
