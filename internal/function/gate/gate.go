// Package gate holds calls back until the storage that they need is prepared. A process
// serves at once, and prepares its storage in the background, with retries.
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
	tryTime    = 30 * time.Second // for one attempt
	firstPause = time.Second      // after a failure; doubles up to maxPause
	maxPause   = 4 * time.Second  // short, so that work goes on soon after an outage
	reportTime = time.Minute      // between two reports of failures
)

// Gate is closed until its preparation has succeeded. A nil Gate is open. It is safe for
// concurrent use.
type Gate struct {
	open chan struct{} // closed when the gate opens

	mu     sync.Mutex    // guards the fields below
	err    error         // of the last attempt
	failed chan struct{} // closed when the current attempt has failed
}

// New returns a closed gate.
func New() *Gate { return &Gate{open: make(chan struct{}), failed: make(chan struct{})} }

// Prepare calls prepare until it succeeds, and then opens the gate. It calls report for the
// first failure, and at most once a minute for later ones. It returns early only if ctx
// ends.
//
// If prepare returns a [problem.Error], somebody has to act: [Gate.Pass] returns it at once.
// After any other error, Pass keeps waiting.
func (g *Gate) Prepare(ctx context.Context, prepare func(context.Context) error, report func(error)) {
	var reported time.Time
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		err := attempt(ctx, prepare)
		if err == nil {
			close(g.open)
			return
		}
		if ctx.Err() != nil {
			return
		}
		g.fail(err)
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

// fail records a failed attempt.
func (g *Gate) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err = err
	close(g.failed)
	g.failed = make(chan struct{})
}

// last returns the error of the last attempt, and a channel that is closed when the next one
// has failed.
func (g *Gate) last() (failed <-chan struct{}, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.failed, g.err
}

// Wait waits until the gate opens or ctx ends. Its errors are [problem.Error].
func (g *Gate) Wait(ctx context.Context) error {
	if g == nil {
		return nil
	}
	select {
	case <-g.open:
		return nil
	case <-ctx.Done():
		_, err := g.last()
		return reason(err)
	}
}

// Err returns nil if the gate is open, and else the reason why it is closed.
func (g *Gate) Err() error {
	if g == nil {
		return nil
	}
	select {
	case <-g.open:
		return nil
	default:
	}
	_, err := g.last()
	return reason(err)
}

// Pass waits until the gate opens, at most for so long. If somebody has to act, it returns
// the reason at once.
func (g *Gate) Pass(ctx context.Context, most time.Duration) error {
	if g == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		failed, err := g.last()
		select {
		case <-g.open:
			return nil
		default:
		}
		var p *problem.Error
		if errors.As(err, &p) {
			return p
		}
		select {
		case <-g.open:
			return nil
		case <-failed:
		case <-ctx.Done():
			return reason(err)
		}
	}
}

// reason returns the error that tells a caller why the gate is closed.
func reason(err error) error {
	var p *problem.Error
	if errors.As(err, &p) {
		return p
	}
	return problem.NotReadyf("", "the app is not ready: its storage does not answer; try again later").Because(err)
}
