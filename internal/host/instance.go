package host

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/task"
)

// Why an instance ends.
var (
	errGaveUp = errors.New("the handler process failed 3 times, each within 30 minutes of the one before")
	errLost   = errors.New("the instance was lost")
	errAway   = errors.New("the queues' storage is away")
	errLease  = errors.New("another host has got the lease of a timer that this one kept")
)

// instance is one machine of the app: a handler process that it keeps alive, and
// the listeners that feed it. When it is lost, another takes its place. When its handler
// fails too often, its storage refuses connections too long, or a timer's lease is lost, it ends, as the real host does; the platform starts another.
type instance struct {
	id   int
	host *Host
	log  zerolog.Logger

	first     sync.Once  // guards started
	started   chan error // gets the outcome of the first start
	mu        sync.Mutex // guards the fields below
	process   *process   // nil while there is none that is ready
	published chan struct{}
	lose      context.CancelCauseFunc // ends the present instance
}

func newInstance(h *Host, id int) *instance {
	return &instance{
		id: id, host: h, log: h.options.Log.With().Int("instance", id).Logger(),
		started: make(chan error, 1), published: make(chan struct{}), lose: func(error) {},
	}
}

// end ends the present instance for a reason.
func (in *instance) end(why error) {
	in.mu.Lock()
	lose := in.lose
	in.mu.Unlock()
	lose(why)
}

// withoutStorage ends the present instance.
func (in *instance) withoutStorage() { in.end(errAway) }

// run keeps the place of the instance filled. It takes no message after
// ctx has ended, and kills the process when work has.
func (in *instance) run(ctx, work context.Context) {
	for ctx.Err() == nil {
		life, lose := context.WithCancelCause(work)
		polling, stop := context.WithCancel(life)
		unhook := context.AfterFunc(ctx, stop)
		in.mu.Lock()
		in.lose = lose
		in.mu.Unlock()
		var listeners sync.WaitGroup
		for _, l := range in.host.listeners(in) {
			in.host.busy.Add(1)
			listeners.Go(func() {
				defer in.host.busy.Done()
				if _, err := in.ready(polling); err == nil { // nothing is taken before it can be run
					l.poll(polling, life)
				}
			})
		}
		err := in.supervise(life)
		lose(err)
		listeners.Wait()
		unhook()
		stop()
		if in.reportStart(err) {
			return // it was never ready: Start fails
		}
		if pause := in.host.options.Times.Restart; errors.Is(err, errGaveUp) || errors.Is(err, errAway) || errors.Is(err, errLease) {
			in.log.Error().Err(err).Msgf("the host ends itself, as the real one does; it starts again in %v", pause)
			task.Sleep(ctx, pause)
		}
	}
}

// reportStart hands Start the result of the first start. It reports whether it was the
// first call: later ones don't count.
func (in *instance) reportStart(err error) (first bool) {
	in.first.Do(func() {
		in.started <- err
		first = true
	})
	return first
}

// supervise runs the handler process and restarts it as the host does, until ctx
// ends or the process has failed too often.
func (in *instance) supervise(ctx context.Context) error {
	runtime.LockOSThread() // see contain
	defer runtime.UnlockOSThread()
	var failures failures
	ever := false // it was ready
	for {
		p, err := in.start(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			in.log.Error().Err(err).Msg("the handler process does not start")
			if !ever && !errors.Is(err, errExited) {
				return err
			}
			if failures.add(time.Now()) {
				return fmt.Errorf("%w: %w", errGaveUp, err)
			}
			continue
		}
		ever = true
		in.reportStart(nil)
		in.publish(p)
		select {
		case <-ctx.Done():
			p.recycle()
		case <-p.done:
		}
		in.publish(nil)
		switch { // by exit code as WorkerProcess of azure-functions-host does
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case p.wanted.Load(), p.code == 200:
			in.log.Info().Msg("the handler process is restarted")
		case p.code == 0:
			in.log.Error().Msg("the handler process exited with code 0: the host does not restart it, and every invocation fails until the app is restarted")
			in.publish(p) // requests go to a port where nobody listens
			<-ctx.Done()
			in.publish(nil)
			return context.Cause(ctx)
		default:
			in.log.Error().Msgf("the handler process exited with code %d", p.code)
			if failures.add(time.Now()) {
				return errGaveUp
			}
		}
	}
}

// start starts a process and waits until it is ready.
func (in *instance) start(ctx context.Context) (*process, error) {
	p, err := startProcess(in.host.command, in.log)
	if err != nil {
		return nil, err
	}
	if err := p.waitReady(ctx, in.host.client, in.host.app.Handler.InitTimeout); err != nil {
		p.recycle()
		if errors.Is(err, errExited) {
			err = fmt.Errorf("%w, with code %d", err, p.code)
		}
		return nil, err
	}
	in.log.Info().Int("pid", p.cmd.Process.Pid).Str("url", p.url).Msg("the handler process is ready")
	return p, nil
}

// publish makes p the process that invocations go to; nil makes them wait.
func (in *instance) publish(p *process) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.process = p
	if p != nil {
		close(in.published)
		in.published = make(chan struct{})
	}
}

// ready returns the process, and waits for one if it is being started.
func (in *instance) ready(ctx context.Context) (*process, error) {
	for {
		in.mu.Lock()
		p, published := in.process, in.published
		in.mu.Unlock()
		if p != nil {
			return p, nil
		}
		select {
		case <-published:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// current returns the process that is ready, or nil.
func (in *instance) current() *process {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.process
}

// recycle ends the process that is ready, if there is one. The host starts another.
func (in *instance) recycle() {
	if p := in.current(); p != nil {
		p.recycle()
	}
}

// failures counts a handler's failures as the host does: the third failure within 30 minutes
// of the one before ends the instance. (HttpFunctionInvocationDispatcher
// of azure-functions-host)
type failures struct {
	count int
	last  time.Time
}

// add counts a failure and reports whether there were too many.
func (f *failures) add(now time.Time) bool {
	if now.Sub(f.last) > 30*time.Minute {
		f.count = 0
	}
	f.count, f.last = f.count+1, now
	return f.count >= 3
}
