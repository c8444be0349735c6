package sweep

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"tablesweep/internal/action"
	"tablesweep/internal/problem"
	"tablesweep/internal/split/scan"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
	"tablesweep/internal/task/memory"
)

const (
	tickTime  = 100 * time.Millisecond // the time between two adjustments of the pace
	watchTime = time.Second            // the time between two calls of Watch, and between two syncs of the checkpoint
	graceTime = 30 * time.Second       // how long running requests may take after an interrupt
)

// run is one process's part of a sweep, from its start or a resume to its end. It makes the plan's queries and does the units, as many at a time as
// the pacer allows. Tasks in other goroutines use some of the fields. The other fields are only for the goroutine that runs [run.loop].
type run struct {
	scan    Spec
	options Options
	action  action.Work
	inOrder bool
	top     storage.Top // limits the rows of a table's pages

	plan  plan
	state sweepState
	pacer *pacer
	began time.Time

	events    chan func() // functions that the loop calls when a task has ended
	throttles chan throttle
	wanted    context.Context        // the caller's context, which an interrupt cancels
	tasks     context.Context        // the context of units
	reading   context.Context        // the context of queries
	drop      context.CancelFunc     // cancels reading
	requests  storage.RequestOptions // the options that all queries and units share; [run.countedOptions] adds a counter
	reads     *storage.Limit         // limits the rows read per second
	writes    *storage.Limit         // limits the rows written per second
	workers   task.Group
	idle      chan func() // goroutines that have ended a task wait here for the next task
	cancel    context.CancelFunc
	stopping  bool
	err       error
	// interrupted is set if the caller's context was canceled before any error occurred.
	interrupted bool
	broken      int // number of units that failed after the interrupt and have sent a request whose outcome is unknown
}

func newRun(s Spec, o Options, a action.Work, inOrder bool) *run {
	s.PageRows = cmp.Or(s.PageRows, storage.PageRows)
	if o.MaxRows > 0 {
		s.PageRows = min(s.PageRows, max(1, o.MaxRows/10))
	}
	if s.Strategy == nil {
		s.Strategy = scan.Serial{}
	}
	o.Workers = cmp.Or(o.Workers, DefaultWorkers)
	if o.Memory == nil {
		o.Memory = memory.NewBudget(memory.Command)
	}
	o.Checkpoint = cmp.Or(o.Checkpoint, &Checkpoint{})
	if o.Share == nil { // without a Share, only the sweep's own pace limits its requests
		o.Share = NewShare(math.MaxInt, o.MaxRows)
	}
	w, ok := a.(action.Changing)
	consumes := ok && s.table() != nil && w.Changes().Same(s.table())
	r := &run{
		scan: s, options: o, action: a, inOrder: inOrder, reads: o.Share.reads, writes: o.Share.writes,
		plan:   newPlan(s),
		state:  sweepState{frontier: &frontier{}, checkpoint: o.Checkpoint, differences: differences{most: o.List}, consumes: consumes},
		pacer:  newPacer(o, inOrder),
		began:  time.Now(),
		events: make(chan func(), o.Workers), throttles: make(chan throttle, o.Workers), idle: make(chan func()),
	}
	if !consumes {
		r.pacer.separateSource()
	}
	return r
}

func (r *run) do(ctx context.Context) (Totals, error) {
	r.wanted = ctx
	r.tasks, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	r.reading, r.drop = context.WithCancel(r.tasks)
	defer r.drop()
	r.requests = storage.RequestOptions{Stop: ctx.Done(), Requests: r.options.Requests}
	r.options.Share.sweeps.Add(1)
	defer r.options.Share.sweeps.Add(-1)
	defer r.pacer.release()
	defer r.cancel()
	defer close(r.idle)
	if err := r.fill(); err != nil {
		return r.state.totals, err
	}
	err := r.loop(ctx)
	if closeErr := r.state.checkpoint.close(); err == nil {
		err = closeErr
	}
	if r.options.Watch != nil {
		p := r.progress()
		p.Ended = err == nil
		r.options.Watch(p)
	}
	return r.state.totals, err
}

// fill sets the frontier to the unfinished steps of the checkpoint, or to the scan's first steps.
func (r *run) fill() error {
	listed := r.scan.Keys != nil
	after, resumed, err := r.state.open(listed)
	if err != nil {
		return err
	}
	if listed {
		r.plan.keys = r.scan.Keys.keysAfter(after)
	} else if !resumed {
		for _, first := range r.plan.firstSteps() {
			r.state.frontier.add(first)
		}
	}
	return r.state.begin(listed)
}

// feed adds steps for the next listed keys to the frontier, until the frontier has four steps for each worker.
func (r *run) feed() {
	for r.plan.hasMore() && r.state.frontier.steps.Len() < 4*r.options.Workers {
		r.state.addListed(takeGroup(&r.plan.keys))
	}
}

// loop runs until the sweep is done. After an interrupt or an error, loop runs only until all running tasks have ended.
func (r *run) loop(ctx context.Context) error {
	tick, watch := time.NewTicker(tickTime), time.NewTicker(watchTime)
	defer tick.Stop()
	defer watch.Stop()
	interrupt := ctx.Done()
	var abort <-chan struct{}
	var grace <-chan time.Time
	last := time.Now()
	for {
		r.fail(r.state.checkpoint.flush(r.state.frontier, r.state.totals)) // writes a page's line to the file before the page's units start
		r.dispatch()
		if f := r.state.frontier; f.reads+f.works == 0 && (r.stopping || f.first() == nil) {
			break
		}
		select {
		case event := <-r.events:
			event()
			for len(r.events) > 0 { // first handle all ended tasks, because their results help idle workers to choose the ranges to steal
				(<-r.events)()
			}
		case t := <-r.throttles:
			r.state.count(Totals{Throttles: 1})
			r.pacer.throttled(t)
		case <-tick.C:
			r.pacer.adjust(time.Since(last))
			last = time.Now()
		case <-watch.C:
			r.watch()
		case <-interrupt:
			interrupt, abort, r.stopping = nil, r.options.Abort, true
			r.interrupted = r.err == nil
			grace = time.After(graceTime)
			r.drop() // cancels running queries, whose rows would not be processed
			r.watch()
		case <-abort:
			abort = nil
			r.cancel()
		case <-grace:
			r.cancel()
		}
	}
	if r.err == nil && (r.state.frontier.first() != nil || r.plan.hasMore()) {
		return r.interruptError()
	}
	return r.err
}

// interruptError returns the error of an interrupted sweep. If units failed after the interrupt, and the outcome of their requests is unknown, the error
// contains the number of these units.
func (r *run) interruptError() error {
	if r.broken == 0 {
		return task.ErrInterrupted
	}
	do := "change"
	if r.state.consumes {
		do = "delete"
	}
	return fmt.Errorf("%w; %s had no answer and may still %s rows", task.ErrInterrupted, problem.Plural(r.broken, "request"), do)
}

func (r *run) watch() {
	r.fail(r.state.checkpoint.sync())
	if r.options.Watch != nil {
		r.options.Watch(r.progress())
	}
}

func (r *run) progress() Progress {
	f := r.state.frontier
	reading := f.reads
	if r.interrupted { // the queries were canceled
		reading = 0
	}
	return Progress{
		Totals: r.state.totals, Run: r.state.ours, Elapsed: time.Since(r.began), Ranges: f.steps.Len(),
		Buffered: f.buffered, Reading: reading, Working: f.works,
		Limit: r.pacer.limit(), Bytes: r.state.bytes, Stopping: r.interrupted,
	}
}

func (r *run) fail(err error) {
	if err != nil && r.err == nil {
		r.err, r.stopping = err, true
		r.cancel()
	}
}

// isExpected reports whether an error occurred only because the sweep is stopping. While the sweep is stopping, it
// cancels requests, and does not repeat failed requests.
func (r *run) isExpected(err error) bool {
	return r.stopping && (r.err != nil || r.tasks.Err() != nil) || r.wanted.Err() != nil && storage.Passing(err)
}

// dispatch starts as many tasks as the pacer allows: units before queries, because units free memory.
func (r *run) dispatch() {
	if !r.stopping {
		r.feed()
	}
	f, p := r.state.frontier, r.pacer
	for !r.stopping && p.target.freeRequests(f.works) > 0 {
		s, i := f.nextUnit(r.inOrder, p.freePartitions())
		if s == nil || !p.target.pool.take() {
			break
		}
		r.startUnit(s, f.take(s, i))
	}
	for !r.stopping && !p.enoughRead(f) && p.source.freeRequests(f.reads) > 0 {
		s, isFirst := f.nextRead(p.readable())
		room := p.hasRoom(f)
		if s == nil && room && r.plan.steals {
			r.steal()
			s, isFirst = f.nextRead(p.readable())
		}
		// If the memory has no room, a page is read only if no other page is held or being read. But the page of the frontier's first step is read
		// even without room, because all other pages may wait for this page.
		if s == nil || !room && !isFirst && f.bytes+f.reads > 0 || !p.source.pool.take() {
			break
		}
		r.startRead(s)
	}
	p.returnUnused(f)
}

// steal lets idle workers take parts of unfinished ranges, and makes each part a step.
func (r *run) steal() {
	if r.reads.Binds() || r.options.Requests.Binds() { // further queries would only wait, and stealing causes some rows to be read twice
		return
	}
	least := 0.0
	if r.inOrder && !r.scan.partitions || r.state.comparison != nil {
		// A range of less than a page is not divided, because it would become two pages. In table order, the second page would wait long for its turn.
		// In a comparison, the second page would take two queries.
		least = float64(r.scan.PageRows)
	}
	idle := r.pacer.source.freeRequests(r.state.frontier.reads)
	// If the number of rows is limited, only a few workers steal, because each query reserves a part of the limit until its page arrives, and the page
	// of a stolen range is often empty.
	if r.options.MaxRows > 0 {
		took := r.pacer.source.took.Seconds()
		use := float64(r.options.MaxRows/r.options.Share.sweepCount()) * took / max(1, r.reads.Expects(r.scan.PageRows))
		idle = min(idle, 1+int(2*use)-r.state.frontier.reads)
	}
	for _, t := range r.plan.steal(r.state.frontier, idle, least, r.pacer.readable()) {
		r.state.addThieves(t.victim, t.thieves)
	}
}

// start runs a task (a query or a unit) in a goroutine. When the task has ended, the loop calls `ended` with the task's duration and error. A panic of
// the task becomes its error. start prefers a goroutine that has run a task before, because a new goroutine must first grow its stack.
func (r *run) start(do func() error, ended func(took time.Duration, err error)) {
	one := func() {
		began := time.Now()
		err := task.Do(do)
		took := time.Since(began)
		r.events <- func() { ended(took, err) }
	}
	select {
	case r.idle <- one:
	default:
		r.workers.Go(func() error { // ends when the run ends
			for ; one != nil; one = <-r.idle {
				one()
			}
			return nil
		})
	}
}

// countedOptions returns the options of a task's requests, with a counter that reports throttling to the loop. If the loop cannot keep up, the
// counter drops some reports, because the loop does not need all of them.
func (r *run) countedOptions(s *side, t throttle) storage.RequestOptions {
	o := r.requests
	o.Rows = r.reads
	if t.unit {
		o.Rows = r.writes
	}
	o.Waiting = s.waiting
	o.Counter = &storage.Counter{OnThrottle: func(waits bool) {
		t := t
		t.waits = waits
		select {
		case r.throttles <- t:
		default:
		}
	}}
	return o
}

func (r *run) startUnit(s *step, u []storage.Row) {
	partition := u[0].Key.Partition
	r.pacer.limiter.Started(partition, len(u))
	counted := r.countedOptions(&r.pacer.target, throttle{unit: true, partition: partition})
	var result action.Result
	r.start(func() error {
		return r.pacer.limiter.Send(counted, partition, len(u), func(o storage.RequestOptions) (_ int, err error) {
			result, err = r.action.Do(r.tasks, o, u)
			return len(u), err
		})
	}, func(took time.Duration, err error) {
		r.pacer.target.ended(took)
		r.unitEnded(s, u, result, counted.Counter, err)
	})
}

func (r *run) unitEnded(s *step, u []storage.Row, result action.Result, sent *storage.Counter, err error) {
	did := Totals{Requests: sent.Requests(), Doubts: sent.Doubts()}
	if err == nil {
		err = r.report(result.Failed)
	}
	if err != nil {
		r.state.repeatUnit(s, u, did)
		if r.interrupted && did.Doubts > 0 {
			r.broken++
		}
		if !r.isExpected(err) {
			r.fail(err)
		}
		return
	}
	did.Rows, did.Written, did.Failed = int64(len(u)), result.Written, int64(len(result.Failed))
	r.state.finishUnit(s, u, did)
}

// report passes failed rows to Options.Failed. If Options.Failed returns an error, the sweep stops.
func (r *run) report(failed []action.Failure) error {
	if r.options.Failed == nil || len(failed) == 0 {
		return nil
	}
	err := r.options.Failed(failed)
	r.fail(err)
	return err
}
