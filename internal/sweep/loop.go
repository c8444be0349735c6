package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
	"unsafe"

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

	// Requests under way at first. A query more than pays is stolen from another and costs a
	// request; units are there in any case.
	firstReads = 8
	firstUnits = 64
)

// run is a sweep under way. All of it belongs to the goroutine in loop, but for
// what task functions get.
type run struct {
	scan    Spec
	options Options
	action  action.Work
	inOrder bool

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
	hot            map[string]bool // partitions throttled since the last tick
	units          int             // of the last page that had rows
	page, largest  int             // bytes that a page may have, and that one had
	bytes          int64           // of all pages

	events    chan func() // what the loop is to do when something ended
	throttles chan throttle
	wanted    context.Context // canceled by an interrupt
	tasks     context.Context // of queries and units
	idle      chan func()     // goroutines that ended a task take the next one from it
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
		spill: spill{most: o.Spill}, hot: map[string]bool{}, events: make(chan func(), o.Workers), throttles: make(chan throttle, o.Workers),
		idle: make(chan func()),
	}
	if w, ok := a.(interface{ Changes() *storage.Table }); !ok || !w.Changes().Same(s.Table) {
		r.reads = "source/" // nobody else makes the source's partitions busy
	}
	if a, ok := s.Strategy.(adaptive.Strategy); ok && a.Hints == nil && s.Keys == nil {
		r.steals = true
	}
	return r
}

func (r *run) run(ctx context.Context) (Totals, error) {
	r.wanted = ctx
	r.tasks, r.cancel = context.WithCancel(storage.StopRetries(context.WithoutCancel(ctx), ctx.Done()))
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
	var after *key.Key
	if c != nil && c.restored != nil {
		r.frontier, r.totals, after = c.restored.frontier, c.restored.totals, c.after
	} else if c != nil {
		c.listed = r.scan.Keys != nil
	}
	switch {
	case r.scan.Keys == nil && c != nil && c.listed:
		return errors.New("the checkpoint is of listed rows, and the list is missing")
	case r.scan.Keys != nil && (c == nil || c.listed):
		var err error
		if r.keys, err = r.scan.Keys.read(after); err != nil {
			return err
		}
	case c == nil || c.restored == nil:
		r.first()
	}
	if c == nil {
		return nil
	}
	return c.rewrite(r.frontier, r.totals)
}

// feed puts the next keys into the frontier, as many as may soon be looked for.
func (r *run) feed() {
	for r.more() && r.frontier.nodes.Len() < 4*r.options.Workers {
		partition, rows, err := r.keys.group()
		if err != nil {
			r.fail(err)
			return
		}
		n := r.frontier.add(wantedStep(partition, rows), 1)
		n.wanted = rows
		if c := r.options.Checkpoint; c != nil {
			c.list(n, key.Key{Partition: partition, Row: rows[len(rows)-1]})
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
	n := r.frontier.add(step, 1)
	if r.steals {
		n.strand = steal.NewStrand(step.Range)
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
		r.dispatch()
		if c := r.options.Checkpoint; c != nil {
			r.fail(c.flush(r.frontier, r.totals))
		}
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
		n, i := r.frontier.unit(r.inOrder, r.free())
		if n == nil {
			break
		}
		u := r.frontier.take(n, i)
		if n.spilled != nil {
			rows, err := r.spill.load(n.spilled)
			if err != nil {
				r.frontier.giveBack(n, u)
				r.fail(err)
				break
			}
			u, n.spilled = rows, nil
		}
		r.startUnit(n, u)
	}
	for !r.stopping && !r.ahead() && r.source.free(r.frontier.reads) {
		n, ahead := r.frontier.waits(r.readable())
		room := r.frontier.bytes+(r.frontier.reads+1)*r.page <= r.options.Buffer
		if n == nil && room && r.steals {
			r.steal()
			n, ahead = r.frontier.waits(r.readable())
		}
		// One page may always be in memory, and the one that all others wait for.
		if n == nil || !room && !ahead && r.frontier.bytes+r.frontier.reads > 0 {
			break
		}
		r.startRead(n)
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

func (r *run) startRead(n *node) {
	r.frontier.startRead(n)
	q := storage.Query{Range: n.step.Range, Filter: r.scan.Filter, Select: r.scan.Select, Top: r.scan.Segment, Token: n.step.Token, Raw: r.scan.Raw}
	if n.wanted != nil {
		q.Top = min(q.Top, groupMeets+keyMeets*len(n.wanted))
	}
	if q.Range.Partition != nil {
		r.limiter.Started(r.reads+*q.Range.Partition, q.Top)
	}
	r.start(func() {
		began := time.Now()
		counter := r.counter(throttle{confined: q.Range.Partition != nil})
		var page storage.Page
		read := func(ctx context.Context) (_ int, err error) {
			page, err = r.scan.Table.Query(ctx, q)
			return len(page.Entities), err
		}
		ctx := counter.In(r.tasks)
		var err error
		if q.Range.Partition != nil {
			err = r.limiter.Send(ctx, r.reads+*q.Range.Partition, q.Top, read)
		} else {
			_, err = read(ctx)
		}
		took := time.Since(began)
		r.events <- func() { r.readEnded(n, page, took, counter.Requests(), err) }
	})
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

// counter returns a counter that reports throttling to the loop. If the loop can't
// keep up, some of it goes unreported; the rest will do.
func (r *run) counter(t throttle) *storage.Counter {
	return &storage.Counter{OnThrottle: func() {
		select {
		case r.throttles <- t:
		default:
		}
	}}
}

// readEnded takes in a page, or what is this node's of one read again.
func (r *run) readEnded(n *node, p storage.Page, took time.Duration, requests int64, err error) {
	r.source.ended(took)
	did := Totals{Requests: requests}
	if err != nil {
		r.unread(n, did)
		if !r.expected(err) {
			r.fail(fmt.Errorf("read the source: %w", err))
		}
		return
	}
	did.Queries, did.Steps, did.CriticalPath = 1, 1, n.depth
	if len(p.Entities) == 0 {
		did.EmptyQueries = 1
	}
	if n.step.Range.Partition != nil {
		did.PartitionQueries = 1
	}
	page := scan.Page{Keys: p.Keys(), Next: p.Next}
	if r.options.Trace != nil {
		r.options.Trace(Trace{Step: n.step, Page: page, Took: took})
	}
	yield, children, err := r.advance(n, page)
	if err != nil {
		r.unread(n, did)
		r.fail(err)
		return
	}
	rows := p.Entities[:yield]
	if n.wanted != nil {
		var missing []action.Failure
		if rows, missing = n.choose(rows, page); r.scan.Filter == "" && len(missing) > 0 {
			if err := r.report(missing); err != nil {
				r.unread(n, did)
				return
			}
			did.Rows, did.Failed = int64(len(missing)), int64(len(missing))
		}
	}
	if len(n.done) > 0 {
		rows = slices.DeleteFunc(rows, func(e storage.Entity) bool {
			return slices.ContainsFunc(n.done, func(s span) bool { return s.contains(e.Key) })
		})
	}
	r.bytes += int64(p.Bytes)
	bytes := weight(p)
	r.expect(bytes)
	r.found(n, rows, bytes, children, did)
}

// expect takes in a page's size. Queries under way are taken for average ones, since
// those of thieves are often empty, but not for less than half of the largest. In
// order, pages stay for long, and may all be large.
func (r *run) expect(bytes int) {
	if r.largest == 0 {
		r.page = bytes
	}
	r.largest = max(r.largest, bytes)
	r.page = max(r.page+(bytes-r.page)/16, r.largest/2)
	if r.inOrder {
		r.page = r.largest
	}
}

// unread lets a node wait again whose query failed or can't be used. The checkpoint
// still has its step.
func (r *run) unread(n *node, did Totals) {
	r.frontier.unread(n)
	r.vain(did)
}

// vain counts requests whose work is still to be done.
func (r *run) vain(did Totals) {
	r.count(did)
	if c := r.options.Checkpoint; c != nil {
		c.vain(did)
	}
}

// weight is about how many bytes of memory a page takes: its text, which the rows
// refer to, and the rows.
func weight(p storage.Page) int {
	const entity, property = int(unsafe.Sizeof(storage.Entity{})), int(unsafe.Sizeof(storage.Property{}))
	bytes := p.Bytes + len(p.Entities)*entity
	for _, e := range p.Entities {
		bytes += cap(e.Properties) * property
	}
	return bytes
}

// advance returns how many rows of a page are the node's, and what is left to read
// besides.
func (r *run) advance(n *node, p scan.Page) (yield int, children []scan.Step, err error) {
	if n.strand != nil {
		yield, more := r.model.Page(n.strand, p)
		if more {
			children = []scan.Step{n.step.Continue(*p.Next)}
		}
		return yield, children, nil
	}
	if n.wanted != nil && n.through == nil {
		children, _ = n.look(p)
		return len(p.Keys), children, nil
	}
	if n.through == nil {
		o, err := r.scan.Strategy.Advance(n.step, p)
		return o.Yield, o.Children, err
	}
	yield, beyond := slices.BinarySearchFunc(p.Keys, *n.through, key.Key.Compare)
	if beyond {
		yield++
	}
	if p.Next != nil && yield == len(p.Keys) && !beyond {
		children = []scan.Step{n.step.Continue(*p.Next)}
	}
	return yield, children, nil
}

// found replaces a node's query by its rows and its children.
func (r *run) found(n *node, rows []storage.Entity, bytes int, children []scan.Step, did Totals) {
	var units [][]storage.Entity
	if len(rows) > 0 {
		units = r.action.Split(rows)
	}
	inUnits := 0
	for _, u := range units {
		inUnits += len(u)
	}
	if len(rows) > 0 {
		r.units = len(units)
	}
	if inUnits == 0 {
		bytes = 0
	}
	if r.inOrder && inUnits > 0 && r.frontier.bytes+bytes > r.options.Buffer/2 && n != r.frontier.first() {
		if n.spilled = r.spill.store(rows); n.spilled != nil {
			units, bytes = [][]storage.Entity{nil}, 0
		}
	}
	did.Rows += int64(len(rows) - inUnits)
	added := r.frontier.read(n, bytes, units, int64(inUnits), children)
	for _, c := range added {
		c.through, c.done, c.strand = n.through, slices.Clip(n.done), n.strand // each appends on its own
		if n.wanted != nil {
			c.wanted = among(n.wanted, c.step.Range)
		}
	}
	n.strand = nil
	r.count(did)
	if c := r.options.Checkpoint; c != nil {
		var last *key.Key
		if len(rows) > 0 {
			last = &rows[len(rows)-1].Key
		}
		c.read(n, last, added, did)
	}
	r.drop(n)
}

func (r *run) drop(n *node) {
	if r.frontier.drop(n) && r.options.Checkpoint != nil {
		r.options.Checkpoint.end(n)
	}
}

func (r *run) startUnit(n *node, u []storage.Entity) {
	partition := u[0].Key.Partition
	r.limiter.Started(partition, len(u))
	r.start(func() {
		began := time.Now()
		counter := r.counter(throttle{unit: true, partition: partition})
		var result action.Result
		err := r.limiter.Send(counter.In(r.tasks), partition, len(u), func(ctx context.Context) (_ int, err error) {
			result, err = r.action.Do(ctx, u)
			return len(u), err
		})
		took := time.Since(began)
		r.events <- func() {
			r.target.ended(took)
			r.unitEnded(n, u, result, counter, err)
		}
	})
}

func (r *run) unitEnded(n *node, u []storage.Entity, result action.Result, sent *storage.Counter, err error) {
	did := Totals{Requests: sent.Requests(), Doubts: sent.Doubts()}
	if err == nil {
		err = r.report(result.Failed)
	}
	if err != nil {
		r.frontier.giveBack(n, u)
		r.vain(did)
		if !r.expected(err) {
			r.fail(err)
		}
		return
	}
	did.Rows, did.Written, did.Failed = int64(len(u)), result.Written, int64(len(result.Failed))
	r.frontier.finish(n, did.Rows)
	r.count(did)
	if c := r.options.Checkpoint; c != nil {
		c.did(n, span{u[0].Key, u[len(u)-1].Key}, did)
	}
	r.drop(n)
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
