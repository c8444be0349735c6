package engine

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/engine/ledger"
	"tablesweep/internal/place"
	"tablesweep/internal/problem"
	"tablesweep/internal/scan/adaptive"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// This file is the way of a message, from top to bottom: Run → process → begin → do → commit →
// follow. fail.go has what happens to errors, end.go how a scan ends.

// Run handles one delivery of a message to one of the queue functions. delivery counts
// from 1. It returns a line that reports what was done. An error's fate is [problem.FateOf].
// When the scan itself cannot continue, Run records that with the scan, and the message is
// done.
func (e *Engine) Run(ctx context.Context, body []byte, delivery int) (report string, err error) {
	m, err := parseMessage(body)
	if err != nil {
		return "", err
	}
	log := zerolog.Ctx(ctx)
	log.UpdateContext(func(c zerolog.Context) zerolog.Context { return c.Str("scan", m.Scan).Str("step", m.id) })
	throttled := e.heart.take(log, m.Scan, m.id)
	again := true // also if it panics
	defer func() {
		if e.heart.release(m.id, again && delivery < MaxDeliveries) {
			e.endIfDone(ctx, m.Scan)
		}
	}()
	stepCtx, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	err = task.Do(func() (err error) {
		report, err = e.process(stepCtx, m, delivery, throttled)
		return err
	})
	if fatal := fatalOf(err, delivery); fatal != nil {
		again = false
		return e.failScan(ctx, m, fatal)
	}
	again = problem.FateOf(err) == problem.Retry
	return report, err
}

// process makes the message's step, commits it, and sends its children's messages. It counts the step's throttles
// as they come.
func (e *Engine) process(ctx context.Context, m message, delivery int, throttles *atomic.Int64) (report string, err error) {
	start := time.Now()
	o, err := e.load(ctx, m.Scan)
	if err != nil {
		return "", err
	}
	if err := o.ended(); err != nil {
		return "", err
	}
	var throttled atomic.Int64
	counter := storage.Counter{OnThrottle: func(bool) { throttled.Add(1); throttles.Add(1) }}
	counted := storage.RequestOptions{Counter: &counter}
	p, err := e.begin(ctx, counted, m, delivery)
	if err != nil {
		return "", err
	}
	defer func() { e.giveUp(ctx, m.Scan, p, delivery, err) }()
	asking := counted
	asking.Ask = func(ctx context.Context) error { return e.mayGoOn(ctx, m.Scan) }
	do := o.with(asking).do
	if m.Again != nil {
		do = o.with(asking).redo(e.ledger.With(counted))
	}
	done, children, err := do(ctx, m, delivery)
	if err != nil {
		return "", err
	}
	done.Attempt = o.attempt
	done.Transactions = counter.Requests() + 1 + int64(len(children))
	done.Throttled = throttled.Load()
	committed, maybe, err := e.commit(ctx, m, done, children)
	if err == nil && !committed && done.Redone != "" {
		err = e.othersRedid(ctx, m)
	}
	if err != nil {
		return "", err
	}
	// Of two deliveries at once, only the one that committed the step sends messages: else each step
	// below it would be done twice, too. A message for a child that does not exist does no harm: no
	// pending row is found for it.
	if committed || maybe {
		e.follow(ctx, m, children)
	}
	if committed {
		e.foldAfter(ctx, m.Scan, m.id)
	}
	return reportOf(m, done, len(children), time.Since(start), committed), nil
}

// begin reads the step's pending row. If a delivery or message before this one may have begun the
// step, it records one more beginning. It returns the step as it was before.
func (e *Engine) begin(ctx context.Context, o storage.RequestOptions, m message, delivery int) (ledger.Pending, error) {
	l := e.ledger.With(o)
	p, pending, err := l.Pending(ctx, m.Scan, m.id)
	if err != nil {
		return p, err
	}
	if !pending {
		return p, e.repeated(ctx, m.Scan, delivery)
	}
	if unrecorded(p, delivery) {
		return p, nil
	}
	if p.Deaths() >= MaxDeliveries {
		return p, &fatalError{diedOver(m.id)} // it would go on ending processes
	}
	// If another delivery was faster, that one is counted and this one is not.
	_, err = l.Begin(ctx, m.Scan, p)
	return p, err
}

// unrecorded reports whether a delivery is the step's first one, of whose beginning the ledger has no record.
func unrecorded(p ledger.Pending, delivery int) bool {
	return delivery == 1 && p.Sends == 0 && p.Begun == 0 && !p.FirstEnded
}

// repeated handles the message of a step that was committed before. On a repeated delivery the process
// may have died between the commit and the scan's end: it notices that end now.
func (e *Engine) repeated(ctx context.Context, scan string, delivery int) error {
	if delivery > 1 {
		if _, err := e.finish(ctx, scan); err != nil {
			return err
		}
	}
	return problem.Stalef("", "the step was committed by an earlier delivery")
}

// do reads the step's rows and does the scan's work with them. It returns what the ledger keeps of
// the step, and the messages of its children. Doing it twice has the same effect as once.
func (o *opened) do(ctx context.Context, m message, delivery int) (done ledger.Done, children []message, err error) {
	var file *exporting
	if o.work.export != nil {
		file = &exporting{FileDraft: place.NewFile(o.work.codec)}
	}
	found, err := o.read(ctx, m, file)
	if err != nil {
		return done, nil, err
	}
	if o.work.packs {
		found.handOver(m)
	}
	rows := slices.Concat(found.spans...)
	done.Rows, done.Queries = int64(len(rows)), found.queries
	if file != nil {
		if done.Rows, done.File, err = file.put(ctx, o.work.export, m.id); err != nil {
			return done, nil, err
		}
		done.Written = done.Rows
	}
	if o.work.action != nil {
		failed, err := o.write(ctx, rows, delivery, &done.Totals)
		if err != nil {
			return done, nil, err
		}
		found.blame(failed, m.Rows)
		done.Refused, done.Kept = packRefused(failed, found.refused(failed, o.request.Action.Type == Keys, o.work.count))
		if len(failed) > 0 {
			done.FirstFailed = failed[0].String()
		}
	}
	done.Note = found.note()
	done.Ahead = adaptive.Outlook{}.Minus(m.ahead())
	for _, c := range found.children {
		done.Ahead = done.Ahead.Plus(c.ahead())
	}
	return done, found.children, nil
}

// commit records in one transaction that the step is done and that its children are pending. committed
// is false if the step was not pending any more. maybe then tells that the transaction was sent more than
// once: its first try may have committed the step, and lost its answer.
func (e *Engine) commit(ctx context.Context, m message, done ledger.Done, children []message) (committed, maybe bool, err error) {
	pending := make([]ledger.Pending, len(children))
	for i := range children {
		if err := children[i].seal(); err != nil {
			return false, false, err
		}
		pending[i] = children[i].pending()
	}
	var sent storage.Counter
	committed, err = e.ledger.With(storage.RequestOptions{Counter: &sent}).Commit(ctx, m.Scan, m.id, e.options.Now(), done, pending)
	return committed, sent.Requests() > 1, err
}

// follow sends the children's messages. If there are none, the scan may have ended. Maintain sends what
// follow cannot: the step is committed, and must not be repeated.
func (e *Engine) follow(ctx context.Context, m message, children []message) {
	if len(children) == 0 {
		e.heart.childless(m.id)
		return
	}
	var g task.Group
	for _, c := range children {
		g.Go(func() error { return e.send(ctx, c) })
	}
	if err := g.Wait(); err != nil {
		zerolog.Ctx(ctx).Warn().Err(err).Msg("a child's message was not sent; Maintain will send it")
	}
}

// reportOf returns the line about a step for the function's log.
func reportOf(m message, done ledger.Done, children int, took time.Duration, committed bool) string {
	report := fmt.Sprintf("scan %s, step %s: read %d rows in %d queries, wrote %d, refused %d, sent %d messages; %d requests, throttled %d times; took %v",
		m.Scan, m.id, done.Rows, done.Queries, done.Written, done.Failed, children, done.Transactions, done.Throttled, took.Round(time.Millisecond))
	if !committed {
		report += "; another delivery had committed it"
	}
	return report
}
