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

// New returns an engine with the app's schedules. Call [Scans.TryPrepare] before its other methods.
func New(o Options, schedules ...Schedule) (*Engine, error) {
	all, err := newScans(o)
	if err != nil {
		return nil, err
	}
	reader, checker := newReader(all), newChecker(all)
	lives := newLife(all, reader, checker)
	upkeep, err := newUpkeep(all, lives)
	if err != nil {
		return nil, err
	}
	return &Engine{all, reader, checker, lives, upkeep, newSteps(all, lives), newScheduler(all, reader, lives, schedules)}, nil
}
