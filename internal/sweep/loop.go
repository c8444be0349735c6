package sweep

import (
	"cmp"
	"context"
	"errors"
	"time"

	"tablesweep/internal/action"
	"tablesweep/internal/key"
	"tablesweep/internal/pace"
	"tablesweep/internal/scan"
	"tablesweep/internal/scan/adaptive"
	"tablesweep/internal/scan/steal"
	"tablesweep/internal/storage"
)

const (
	tickTime  = 100 * time.Millisecond // between two looks at the pace
	watchTime = time.Second            // between two calls of Watch, and of the checkpoint's sync
	graceTime = 30 * time.Second       // for what is under way when the sweep is interrupted
	firstPage = 1 << 20                // bytes that a page is thought to have until one is seen

	// Requests under way at first. A query too many is a theft that costs a request, whereas
	// units have to be done in any case.
	firstReads = 8
	firstUnits = 64
)

// run is a sweep under way. All of it belongs to the goroutine in loop, except for
// what the functions passed to start use.
type run struct {
	scan    Spec
	options Options
	action  action.Work
	inOrder bool
	// comparison is the action, if that is one.
	comparison  Comparison
	differences differences

	frontier *frontier
	spill    spill   // in order, for pages read long ahead of their turn
	keys     *reader // what is left of the keys to sweep; nil if rows are not listed
	model    *steal.Model
	steals   bool   // idle workers steal, and no strategy splits the scan
	totals   Totals // earlier runs included
	ours     Totals
	began    time.Time

	source, target side
	limiter        action.Limiter  // of partitions, by their keys: the target's as they are
	reads          string          // put before those of the source
	consumes       bool            // a row that is done is not found again
	hot            map[string]bool // partitions throttled since the last tick
	units          int             // of the last page that had rows
	page, largest  int             // bytes to expect of a page, and of the largest so far
	bytes          int64           // of all pages

	events    chan func() // what the loop is to do when something ended
	throttles chan throttle
	wanted    context.Context        // canceled by an interrupt
	tasks     context.Context        // of queries and units
	requests  storage.RequestOptions // of queries and units; each task has a counter of its own
	idle      chan func()            // goroutines that ended a task take the next one from it
	cancel    context.CancelFunc
	stopping  bool
	err       error
	// interrupted is that the context was canceled, and that no error came before.
	interrupted bool
}

func newRun(s Spec, o Options, a action.Work, inOrder bool) *run {
	s.Segment = cmp.Or(s.Segment, storage.PageRows)
	if s.Strategy == nil {
		s.Strategy = scan.Serial{}
	}
	o.Workers = cmp.Or(o.Workers, DefaultWorkers)
	o.Buffer = cmp.Or(o.Buffer, DefaultBuffer)
	o.Spill = cmp.Or(o.Spill, spillMost)
	r := &run{
		scan: s, options: o, action: a, inOrder: inOrder,
		frontier: &frontier{}, model: steal.New(s.Segment), began: time.Now(), page: firstPage,
		source: side{pace: pace.New(firstReads, o.Workers)}, target: side{pace: pace.New(firstUnits, o.Workers)},
		spill: spill{most: o.Spill}, differences: differences{most: o.List}, hot: map[string]bool{}, events: make(chan func(), o.Workers), throttles: make(chan throttle, o.Workers),
		idle: make(chan func()),
	}
	if w, ok := a.(interface{ Changes() *storage.Table }); ok && w.Changes().Same(s.Table) {
		r.consumes = true
	} else {
		r.reads = "source/" // nobody else makes the source's partitions busy
	}
	if a, ok := s.Strategy.(adaptive.Strategy); ok && a.Hints == nil && s.Keys == nil {
		r.steals = true
	}
	return r
}

func (r *run) run(ctx context.Context) (Totals, error) {
	r.wanted = ctx
	r.tasks, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	r.requests = storage.RequestOptions{Stop: ctx.Done()}
	defer r.cancel()
	defer close(r.idle)
	if err := r.fill(); err != nil {
		return r.totals, err
	}
	err := r.loop(ctx)
	if closeErr := r.spill.close(); err == nil {
		err = closeErr
	}
	if c := r.options.Checkpoint; c != nil {
		if closeErr := c.close(); err == nil {
			err = closeErr
		}
	}
	if r.options.Watch != nil {
		p := r.progress()
		p.Ended = err == nil
		r.options.Watch(p)
	}
	return r.totals, err
}

// fill makes the frontier: that of the checkpoint, or the scan's first steps.
func (r *run) fill() error {
	c := r.options.Checkpoint
	resumed := c != nil && c.restored != nil
	listed := r.scan.Keys != nil
	var after *key.Key
	if resumed {
		switch {
		case c.listed && !listed:
			return errors.New("the checkpoint is of listed rows, and the list is missing")
		case listed && !c.listed:
			return errors.New("the checkpoint is not of listed rows")
		}
		r.frontier, r.totals, after = c.restored.frontier, c.restored.totals, c.after
		r.differences.add(c.restored.differences)
	}
	if listed {
		var err error
		if r.keys, err = r.scan.Keys.read(after); err != nil {
			return err
		}
	} else if !resumed {
		r.first()
	}
	if c == nil {
		return nil
	}
	c.listed, c.differences = listed, &r.differences
	return c.rewrite(r.frontier, r.totals)
}

// feed puts the next keys into the frontier, as many as may soon be looked for.
func (r *run) feed() {
	for r.more() && r.frontier.steps.Len() < 4*r.options.Workers {
		partition, rows, err := r.keys.group()
		if err != nil {
			r.fail(err)
			return
		}
		s := r.frontier.add(wantedStep(partition, rows), 1)
		s.wanted = rows
		if c := r.options.Checkpoint; c != nil {
			c.list(s, key.Key{Partition: partition, Row: rows[len(rows)-1]})
		}
	}
}

// more reports whether there are keys that are not in the frontier.
func (r *run) more() bool { return r.keys != nil && r.keys.peek() != nil }

// first adds the scan's first step.
func (r *run) first() {
	step := scan.Step{Range: r.scan.Bounds.Range()}
	if !r.steals {
		step = r.scan.Strategy.Start(r.scan.Bounds)
	}
	if step.Range.Empty() {
		return
	}
	s := r.frontier.add(step, 1)
	if r.steals {
		s.strand = steal.NewStrand(step.Range)
	}
}

// loop runs until nothing is left, or until what was under way has ended after an
// interrupt or an error.
func (r *run) loop(ctx context.Context) error {
	tick, watch := time.NewTicker(tickTime), time.NewTicker(watchTime)
	defer tick.Stop()
	defer watch.Stop()
	interrupt := ctx.Done()
	var abort <-chan struct{}
	var grace <-chan time.Time
	last := time.Now()
	for {
		if c := r.options.Checkpoint; c != nil { // units start when the file has their page
			r.fail(c.flush(r.frontier, r.totals))
		}
		r.dispatch()
		if r.frontier.reads+r.frontier.works == 0 && (r.stopping || r.frontier.first() == nil) {
			break
		}
		select {
		case event := <-r.events:
			event()
			for len(r.events) > 0 { // thieves choose best when all that ended is known
				(<-r.events)()
			}
		case t := <-r.throttles:
			r.throttled(t)
		case <-tick.C:
			r.adjust(time.Since(last))
			last = time.Now()
		case <-watch.C:
			r.watch()
		case <-interrupt:
			interrupt, abort, r.stopping = nil, r.options.Abort, true
			r.interrupted = r.err == nil
			grace = time.After(graceTime)
			r.watch()
		case <-abort:
			abort = nil
			r.cancel()
		case <-grace:
			r.cancel()
		}
	}
	if r.err == nil && (r.frontier.first() != nil || r.more()) {
		return ErrInterrupted
	}
	return r.err
}

func (r *run) watch() {
	if c := r.options.Checkpoint; c != nil {
		r.fail(c.sync())
	}
	if r.options.Watch != nil {
		r.options.Watch(r.progress())
	}
}

// fail stops the sweep for the first error.
func (r *run) fail(err error) {
	if err != nil && r.err == nil {
		r.err, r.stopping = err, true
		r.cancel()
	}
}

// expected reports whether an error comes from stopping: from requests that were broken
// off, or that were not tried again.
func (r *run) expected(err error) bool {
	return r.stopping && (r.err != nil || r.tasks.Err() != nil) || r.wanted.Err() != nil && storage.Passing(err)
}

// dispatch starts as much as is allowed: units first, since they free memory.
func (r *run) dispatch() {
	if !r.stopping {
		r.feed()
	}
	for !r.stopping && r.target.free(r.frontier.works) {
		s, i := r.frontier.unit(r.inOrder, r.free())
		if s == nil {
			break
		}
		u := r.frontier.take(s, i)
		if s.spilled != nil {
			rows, err := r.spill.load(s.spilled)
			if err != nil {
				r.frontier.giveBack(s, u)
				r.fail(err)
				break
			}
			u, s.spilled = rows, nil
		}
		r.startUnit(s, u)
	}
	for !r.stopping && !r.ahead() && r.source.free(r.frontier.reads) {
		s, ahead := r.frontier.waits(r.readable())
		room := r.frontier.bytes+(r.frontier.reads+1)*r.page <= r.options.Buffer
		if s == nil && room && r.steals {
			r.steal()
			s, ahead = r.frontier.waits(r.readable())
		}
		// One page may always be in memory, and the one that all others wait for.
		if s == nil || !room && !ahead && r.frontier.bytes+r.frontier.reads > 0 {
			break
		}
		r.startRead(s)
	}
}

// ahead reports whether enough has been read to keep the target busy for as long as
// two more pages take. What is read and not done when the process dies must be read
// again.
func (r *run) ahead() bool {
	if r.inOrder || r.target.took == 0 { // in order, there is but one unit at a time
		return false
	}
	coming := r.frontier.ready + r.frontier.reads*r.units
	slots := float64(r.target.pace.Limit())
	return float64(coming) >= 2*slots*max(1, r.source.took.Seconds()/r.target.took.Seconds())
}

// free returns a function that reports whether a partition may get one more request. It asks
// about a partition once.
func (r *run) free() func(partition string) bool {
	var last *string
	free := false
	return func(partition string) bool {
		if last == nil || *last != partition {
			last, free = &partition, r.limiter.Free(partition)
		}
		return free
	}
}

// readable returns a function that reports whether a step may be read now.
func (r *run) readable() func(scan.Step) bool {
	free := r.free()
	return func(s scan.Step) bool { return s.Range.Partition == nil || free(r.reads+*s.Range.Partition) }
}

// start runs a task, whose event the loop awaits, in a goroutine. It prefers one that has
// ended another: a request needs a deep stack, and a new goroutine has to grow it.
func (r *run) start(task func()) {
	select {
	case r.idle <- task:
	default:
		go func() { // ends with the run
			for ; task != nil; task = <-r.idle {
				task()
			}
		}()
	}
}

// counted returns the options of a task's requests, with a counter that reports throttling to the
// loop. If the loop can't keep up, some of it goes unreported; the rest will do.
func (r *run) counted(t throttle) storage.RequestOptions {
	o := r.requests
	o.Counter = &storage.Counter{OnThrottle: func() {
		select {
		case r.throttles <- t:
		default:
		}
	}}
	return o
}

func (r *run) drop(s *step) {
	if r.frontier.drop(s) && r.options.Checkpoint != nil {
		r.options.Checkpoint.end(s)
	}
}

func (r *run) startUnit(s *step, u []storage.Entity) {
	partition := u[0].Key.Partition
	r.limiter.Started(partition, len(u))
	r.start(func() {
		began := time.Now()
		counted := r.counted(throttle{unit: true, partition: partition})
		var result action.Result
		err := r.limiter.Send(counted, partition, len(u), func(o storage.RequestOptions) (_ int, err error) {
			result, err = r.action.Do(r.tasks, o, u)
			return len(u), err
		})
		took := time.Since(began)
		r.events <- func() {
			r.target.ended(took)
			r.unitEnded(s, u, result, counted.Counter, err)
		}
	})
}

func (r *run) unitEnded(s *step, u []storage.Entity, result action.Result, sent *storage.Counter, err error) {
	did := Totals{Requests: sent.Requests(), Doubts: sent.Doubts()}
	if err == nil {
		err = r.report(result.Failed)
	}
	if err != nil {
		r.frontier.giveBack(s, u)
		r.vain(did)
		if !r.expected(err) {
			r.fail(err)
		}
		return
	}
	did.Rows, did.Written, did.Failed = int64(len(u)), result.Written, int64(len(result.Failed))
	r.frontier.finish(s, did.Rows)
	r.count(did)
	if c := r.options.Checkpoint; c != nil {
		c.did(s, span{u[0].Key, u[len(u)-1].Key}, did)
	}
	r.drop(s)
}

// report hands failed rows on. Its error stops the sweep.
func (r *run) report(failed []action.Failure) error {
	if r.options.Failed == nil || len(failed) == 0 {
		return nil
	}
	err := r.options.Failed(failed)
	r.fail(err)
	return err
}

func (r *run) count(did Totals) {
	r.totals.add(did)
	r.ours.add(did)
}
