package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"tablesweep/internal/action"
	"tablesweep/internal/engine/ledger"
	"tablesweep/internal/problem"
	"tablesweep/internal/scan"
	"tablesweep/internal/scan/adaptive"
	"tablesweep/internal/storage"
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
	segments int // queries an invocation
	requests storage.RequestOptions
}

// with returns the scan for one step, whose requests are made with the options.
func (run running) with(o storage.RequestOptions) *running {
	run.requests, run.source = o, run.source.With(o)
	return &run
}

// open turns a request into tables and a strategy without hints. Its errors are
// [problem.Invalid].
func (e *Engine) open(r Request) (*running, error) {
	run := &running{state: ledger.Running, request: r, strategy: strategyOf(r, nil), limiter: &e.limiter}
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

// use gives the scan's strategy hints.
func (run *running) use(hints *adaptive.Hints) {
	run.hints, run.strategy = hints, strategyOf(run.request, hints)
}

// requestOf returns the request of a scan that was recorded.
func requestOf(s ledger.Scan) (Request, error) {
	var r Request
	if err := json.Unmarshal(s.Request, &r); err != nil {
		return r, fmt.Errorf("request of scan %s: %w", s.ID, err)
	}
	return r, nil
}

// cachedScan is a scan as it was read a few seconds ago.
type cachedScan struct {
	running *running
	until   time.Time
}

// load returns the scan as it was at most scanCacheTime ago.
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
	if ok { // they are many, and never change while the scan runs
		hints = cached.running.hints
	} else if hints, err = e.ownHints(ctx, id, r); err != nil {
		return nil, err
	}
	run, err := e.open(r)
	if err != nil {
		return nil, err
	}
	run.use(hints)
	run.state = s.State
	if s.State == ledger.Running { // an ended scan may be restarted at any time
		e.remember(id, run)
	}
	return run, nil
}

// remember caches a scan, and drops scans that have been idle for hintsTime.
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
