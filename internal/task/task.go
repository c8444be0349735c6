// Package task runs the parts of an invocation concurrently. If a part panics, the panic becomes the part's error,
// because the process must not end while it runs other invocations.
package task

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// ErrInterrupted is the error of work that ended early because its context was canceled. All tasks that had begun are done. Usually, their
// requests have ended too. If some of these requests have not ended, the error that wraps ErrInterrupted contains their
// number.
var ErrInterrupted = errors.New("interrupted")

// Do calls fn and returns its error. A panic becomes an error with the stack.
func Do(fn func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("internal error: panic: %v\n%s", v, debug.Stack())
		}
	}()
	return fn()
}

// Sleep waits for d. It reports false if ctx ended first.
func Sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Group is an [errgroup.Group] whose functions may panic. The zero value is ready for use.
type Group struct {
	group  errgroup.Group
	cancel context.CancelCauseFunc // nil for a group without a context
	once   sync.Once               // sets failed
	// failed is the first error, if the group has a context. This error ends the context, so other functions fail too, and
	// errgroup may get one of their errors before this error.
	failed error
}

// WithContext returns a group, and a context that ends with the first error or when Wait
// returns.
func WithContext(ctx context.Context) (*Group, context.Context) {
	ctx, cancel := context.WithCancelCause(ctx)
	return &Group{cancel: cancel}, ctx
}

// SetLimit sets the maximum number of functions that run concurrently.
func (g *Group) SetLimit(n int) { g.group.SetLimit(n) }

// Go runs fn in a goroutine, as soon as the limit allows it.
func (g *Group) Go(fn func() error) { g.group.Go(g.guarded(fn)) }

// TryGo runs fn as Go does, or reports false if Go would wait.
func (g *Group) TryGo(fn func() error) bool { return g.group.TryGo(g.guarded(fn)) }

func (g *Group) guarded(fn func() error) func() error {
	return func() error {
		err := Do(fn)
		if err != nil && g.cancel != nil {
			g.once.Do(func() { g.failed = err })
			g.cancel(err)
		}
		return err
	}
}

// Wait waits for all functions and returns the first error.
func (g *Group) Wait() error {
	err := g.group.Wait()
	if g.cancel != nil {
		err = g.failed
		g.cancel(err)
	}
	return err
}
