package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/action"
	"tablesweep/internal/engine/ledger"
	"tablesweep/internal/problem"
	"tablesweep/internal/scan"
	"tablesweep/internal/scan/adaptive"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// running is a scan with what its steps need.
type running struct {
	state    ledger.State
	request  Request
	source   *storage.Table
	limiter  *action.Limiter
	work     work
	hints    *adaptive.Hints // nil if there are none
	strategy scan.Strategy
	segments int
}

// open turns a request into tables and a strategy. Its errors are
// [problem.Invalid].
func (e *Engine) open(r Request, hints *adaptive.Hints) (*running, error) {
	run := &running{
		state: ledger.Running, request: r, hints: hints, strategy: StrategyFor(r, hints),
		limiter: &e.limiter,
	}
	var err error
	if run.source, err = e.table("source", r.Source); err != nil {
		return nil, err
	}
	if run.work, err = e.work(r, run.source); err != nil {
		return nil, err
	}
	run.segments = cmp.Or(r.SegmentsPerInvocation, e.options.SegmentsPerInvocation, run.work.segments())
	return run, nil
}

func requestOf(s ledger.Scan) (Request, error) {
	var r Request
	if err := json.Unmarshal(s.Request, &r); err != nil {
		return r, fmt.Errorf("request of scan %s: %w", s.ID, err)
	}
	return r, nil
}

// load returns the scan, as it was at most a few seconds ago.
func (e *Engine) load(ctx context.Context, id string) (*running, error) {
	e.mu.Lock()
	cached, ok := e.scans[id]
	e.mu.Unlock()
	if ok && time.Now().Before(cached.until) {
		return cached.running, nil
	}
	s, err := e.ledger.Scan(ctx, id)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, problem.Stalef("scan", "the scan is not in the ledger; its record was deleted").Because(err)
	}
	if err != nil {
		return nil, err
	}
	r, err := parseStored(s.Request)
	if err != nil {
		return nil, err
	}
	var hints *adaptive.Hints
	if ok { // they never change under a scan, and are many
		hints = cached.running.hints
	} else if hints, err = e.ownHints(ctx, id, r); err != nil {
		return nil, err
	}
	run, err := e.open(r, hints)
	if err != nil {
		return nil, err
	}
	run.state = s.State
	if s.State == ledger.Running { // one that has ended may be restarted any time
		e.remember(id, run)
	}
	return run, nil
}

// ownHints returns the hints that a scan has kept for itself. Its steps refer to them: those
// of a newer version are [problem.Stale], as the steps are.
func (e *Engine) ownHints(ctx context.Context, id string, r Request) (*adaptive.Hints, error) {
	packed, err := e.ledger.Hints(ctx, id)
	if err != nil {
		return nil, err
	}
	hints, err := usableHints(packed, r)
	if problem.FateOf(err) == problem.Done {
		return hints, err
	}
	warnOfHints(ctx, err)
	return nil, nil
}

func (e *Engine) remember(id string, run *running) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	for old, c := range e.scans {
		if now.After(c.until.Add(hintsTime)) {
			delete(e.scans, old)
		}
	}
	e.scans[id] = cachedScan{run, now.Add(scanCacheTime)}
}

// Run handles one delivery of a message to one of the queue functions, delivery
// counting from 1. It returns a line that says what was done. An error's fate is
// [problem.FateOf]; when the scan itself can't go on, that is recorded with the scan, and
// the message is done.
func (e *Engine) Run(ctx context.Context, body []byte, delivery int) (report string, err error) {
	m, err := parseMessage(body)
	if err != nil {
		return "", err
	}
	id := stepID(body)
	log := zerolog.Ctx(ctx)
	log.UpdateContext(func(c zerolog.Context) zerolog.Context { return c.Str("scan", m.Scan).Str("step", id) })
	e.heart.take(log, m.Scan, id)
	again := true // also if it panics
	defer func() { e.heart.release(id, again && delivery < MaxDeliveries) }()
	e.present.enter(m.Scan)
	defer func() {
		if e.present.leave(m.Scan) {
			e.lookForEnd(ctx, m.Scan)
		}
	}()
	stepCtx, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	err = task.Do(func() (err error) {
		report, err = e.step(stepCtx, m, id, delivery)
		return err
	})
	again = problem.FateOf(err) == problem.Retry
	var fatal *fatalError
	switch {
	case errors.As(err, &fatal):
	case !again || delivery < MaxDeliveries || storage.Passing(err):
		return report, err
	default:
		fatal = &fatalError{fmt.Errorf("a step failed %d times, at last with: %w", delivery, err)}
	}
	again = false
	ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), afterwork)
	defer cancel()
	if failErr := e.failIfPending(ctx, m.Scan, id, fatal.Error()); failErr != nil {
		return "", errors.Join(err, failErr)
	}
	log.Error().Err(err).Msg("scan failed; the step is kept")
	return "scan failed: " + fatal.Error(), nil
}

// fatalError is an error that no repetition will mend.
type fatalError struct{ error }

func (f *fatalError) Unwrap() error { return f.error }

// fatalIfPermanent marks a service's refusal of the source or destination.
func fatalIfPermanent(what string, err error) error {
	if storage.Permanent(err) {
		return &fatalError{fmt.Errorf("%s: %w", what, err)}
	}
	return err
}

// step takes a message through its life.
func (e *Engine) step(ctx context.Context, m message, id string, delivery int) (report string, err error) {
	start := time.Now()
	run, err := e.load(ctx, m.Scan)
	if err != nil {
		return "", err
	}
	if run.state != ledger.Running {
		return "", problem.Stalef("", "the scan is %s", run.state)
	}
	var throttled atomic.Int64
	counter := storage.Counter{OnThrottle: func() { throttled.Add(1) }}
	counted := counter.In(ctx)
	p, pending, err := e.ledger.Step(counted, m.Scan, id)
	if err != nil {
		return "", err
	}
	if !pending {
		return "", e.repeated(ctx, m.Scan, delivery)
	}
	if delivery > 1 || p.Sends > 0 || p.Begun != 0 {
		if err := e.begin(counted, m.Scan, p); err != nil {
			return "", err
		}
	} else {
		p.Begun = -1 // if it comes to an error, it has not ended a process
	}
	defer func() { e.giveUp(ctx, m.Scan, p, delivery, err) }()
	seg, err := run.read(counted, m)
	if err != nil {
		return "", err
	}
	done := ledger.Done{Totals: ledger.Totals{Queries: seg.queries}}
	if run.work.packs {
		seg.handOver(m)
	}
	rows := seg.rows()
	if run.work.do != nil {
		failed, err := run.write(counted, rows, &done.Totals)
		if err != nil {
			return "", err
		}
		var kept int
		done.Refused, kept = packRefused(failed)
		done.Kept = int64(kept)
		seg.blame(failed, m.Rows)
	}
	done.Note = seg.note()
	children, err := seg.steps()
	if err != nil {
		return "", err
	}
	done.Rows = int64(len(rows))
	done.Transactions = counter.Requests() + 1 + int64(len(children))
	done.Throttled = throttled.Load()
	done.Ahead = adaptive.Outlook{}.Minus(m.ahead())
	for _, c := range seg.children {
		done.Ahead = done.Ahead.Plus(c.ahead())
	}
	done.Took = time.Since(start)
	committed, err := e.ledger.Commit(ctx, m.Scan, id, e.options.Now(), done, children)
	if err != nil {
		return "", err
	}
	// If not committed here, then by another delivery or by a first try of ours
	// whose answer was lost. Only in the second case do these children exist;
	// messages for steps that don't are dropped by whoever gets them.
	e.follow(ctx, m.Scan, children)
	if committed {
		e.foldAfter(ctx, m.Scan, id)
	}
	return fmt.Sprintf("scan %s, step %s: read %d rows in %d queries, wrote %d, refused %d, sent %d messages; %d requests, throttled %d times; took %v%s",
		m.Scan, id, done.Rows, done.Queries, done.Written, done.Failed, len(children), done.Transactions, throttled.Load(), done.Took.Round(time.Millisecond),
		map[bool]string{false: "; another delivery had committed it"}[committed]), nil
}

// begin records that a step which was begun before, perhaps by a process that died over
// it, is begun again. One that was begun too often fails the scan: it would go on ending
// processes.
func (e *Engine) begin(ctx context.Context, id string, p ledger.Pending) error {
	if p.Begun >= MaxDeliveries-1 {
		return &fatalError{errors.New(diedOver(p.ID))}
	}
	// If another delivery was faster, it is counted and this one is not.
	_, err := e.ledger.Begin(ctx, id, p)
	return err
}

// diedOver is why a scan fails whose step has ended MaxDeliveries processes. The first
// delivery isn't recorded, and counts unless it is known to have come to an error.
func diedOver(step string) string {
	return fmt.Sprintf("step %s was begun %d times and never finished: the handler died or ran out of time each time", step, MaxDeliveries)
}

// giveUp records that a step ended with an error, and not with the process; with the last delivery of a message also why. It does nothing for no error, nor
// for one that has ended the step for good.
func (e *Engine) giveUp(ctx context.Context, id string, p ledger.Pending, delivery int, err error) {
	var fatal *fatalError
	if problem.FateOf(err) != problem.Retry || errors.As(err, &fatal) {
		return
	}
	reason := ""
	if delivery >= MaxDeliveries {
		reason = err.Error()
		reason = reason[:min(len(reason), maxReason)]
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterwork)
	defer cancel()
	if err := e.ledger.GiveUp(ctx, id, p, reason); err != nil {
		zerolog.Ctx(ctx).Debug().Err(err).Msg("could not record that the step was given up")
	}
}

// maxReason bounds the reason that is kept with a step, in bytes.
const maxReason = 2000

// repeated handles the message of a step that has been committed. If it was
// delivered before, the process may have died between the commit and what
// follows it: the scan's end, at least, can be noticed now.
func (e *Engine) repeated(ctx context.Context, id string, delivery int) error {
	if delivery > 1 {
		if _, err := e.finish(ctx, id); err != nil {
			return err
		}
	}
	return problem.Stalef("", "the step was committed by an earlier delivery")
}

// lookForEnd ends the scan if no step is pending.
func (e *Engine) lookForEnd(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	ended, err := e.finish(ctx, id)
	if err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("could not look for the scan's end; Maintain will")
	}
	if ended {
		zerolog.Ctx(ctx).Info().Msg("scan ended")
	}
}

// follow sends the children's messages; where there are none, the scan may have ended. A child whose message can't be sent is left to Maintain:
// the step is committed, and must not be repeated.
func (e *Engine) follow(ctx context.Context, id string, children []ledger.Step) {
	log := zerolog.Ctx(ctx)
	if len(children) == 0 {
		e.present.ended(id)
		return
	}
	var g task.Group
	for _, c := range children {
		g.Go(func() error { return e.send(ctx, c) })
	}
	if err := g.Wait(); err != nil {
		log.Warn().Err(err).Msg("a child's message was not sent; Maintain will send it")
	}
}

// write does the scan's work with the rows and adds what became of them to done. It returns those that
// could not be written.
func (run *running) write(ctx context.Context, rows []storage.Entity, done *ledger.Totals) ([]action.Failure, error) {
	r, err := run.work.do(ctx, rows)
	if err != nil {
		return nil, fatalIfPermanent(run.work.what, err)
	}
	done.Written, done.Failed = r.Written, int64(len(r.Failed))
	if len(r.Failed) > 0 {
		f := r.Failed[0]
		done.FirstFailed = f.String()
		zerolog.Ctx(ctx).Warn().Int("rows", len(r.Failed)).Str("partitionKey", f.Key.Partition).Str("rowKey", f.Key.Row).Str("reason", f.Reason).Msg("rows refused; this is the first")
	}
	return r.Failed, nil
}
