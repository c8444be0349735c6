// Package gate delays calls until the storage that they need is prepared. A process serves calls from its start, and prepares
// its storage in the background, with retries.
package gate

import (
	"context"
	"errors"
	"sync"
	"time"

	"tablesweep/internal/problem"
	"tablesweep/internal/task"
)

const (
	tryTime    = 20 * time.Second // time limit of one attempt; afterwards the waiting calls get the attempt's error
	firstPause = time.Second      // pause after a failure; doubles up to maxPause
	maxPause   = 4 * time.Second  // short, so that work continues soon after an outage
	reportTime = time.Minute      // time between two reports of failures
)

// Gate is closed until its preparation has succeeded. A nil Gate is open. A Gate is safe for
// concurrent use.
type Gate struct {
	mu      sync.Mutex // guards the fields below
	open    bool
	err     error         // error of the last attempt
	changed chan struct{} // closed when the current attempt has ended
}

// New returns a closed gate.
func New() *Gate { return &Gate{changed: make(chan struct{})} }

// Prepare repeats the function `prepare` until the function succeeds, and then opens the gate. It returns early if ctx
// ends. It reports the first failure, and later failures at most once a minute.
//
// If `prepare` returns a [problem.Error], a person must act, and [Gate.Pass] returns the error immediately. After any other error, Pass continues to
// wait.
func (g *Gate) Prepare(ctx context.Context, prepare func(context.Context) error, report func(error)) {
	var reported time.Time
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		err := attempt(ctx, prepare)
		if err != nil && ctx.Err() != nil {
			return
		}
		if g.set(err); err == nil {
			return
		}
		if reported.IsZero() || time.Since(reported) >= reportTime {
			reported = time.Now()
			report(err)
		}
		if !task.Sleep(ctx, pause) {
			return
		}
	}
}

func attempt(ctx context.Context, prepare func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	return task.Do(func() error { return prepare(ctx) })
}

// set stores the result of an attempt.
func (g *Gate) set(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open, g.err = err == nil, err
	close(g.changed)
	g.changed = make(chan struct{})
}

// Err returns nil if the gate is open. Otherwise, the error says why the gate is closed.
func (g *Gate) Err() error {
	_, _, err := g.state()
	return err
}

// state returns the gate's state. The result err is also the result of Err. The result `changed` is nil if the gate is open. Otherwise, it is a channel that
// is closed when the current attempt ends. If a person must solve the problem, the result `act` is true.
func (g *Gate) state() (changed <-chan struct{}, act bool, err error) {
	if g == nil {
		return nil, false, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	var p *problem.Error
	switch {
	case g.open:
		return nil, false, nil
	case errors.As(g.err, &p):
		return g.changed, true, p
	}
	return g.changed, false, problem.NotReadyf("", "the app is not ready, because its storage does not answer").Because(g.err)
}

// Wait waits until the gate opens or ctx ends. Its errors are [problem.Error].
func (g *Gate) Wait(ctx context.Context) error { return g.wait(ctx, false) }

// Pass waits until the gate opens, at most for the given time. If a person must act, it returns the reason immediately.
func (g *Gate) Pass(ctx context.Context, most time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	return g.wait(ctx, true)
}

// wait implements Pass if `early` is true, and Wait if `early` is false.
func (g *Gate) wait(ctx context.Context, early bool) error {
	for {
		changed, act, err := g.state()
		if err == nil || act && early {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return err
		}
	}
}
