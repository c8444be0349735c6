package host

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/rs/zerolog"

	"tablesweep/internal/task"
)

// instance stands for one machine of the app: a handler process that is kept running, and the listeners that invoke it.
type instance struct {
	id   int
	host *Host
	log  zerolog.Logger

	started   chan error // receives the result of the first start
	mu        sync.Mutex // guards the fields below
	process   *process   // nil if none is ready
	published chan struct{}
}

func newInstance(h *Host, id int) *instance {
	return &instance{
		id: id, host: h, log: h.options.Log.With().Int("instance", id).Logger(),
		started: make(chan error, 1), published: make(chan struct{}),
	}
}

// run keeps the handler process running, and gets messages for it. When ctx ends, run stops getting messages. When the
// context work ends, run kills the process.
func (in *instance) run(ctx, work context.Context) {
	life, end := context.WithCancel(work)
	defer end() // in case of a panic; otherwise, end is called below
	polling, stop := context.WithCancel(life)
	defer stop()
	defer context.AfterFunc(ctx, stop)()
	var listeners sync.WaitGroup
	for _, l := range in.host.listeners(in) {
		in.host.busy.Add(1)
		listeners.Go(func() {
			defer in.host.busy.Done()
			if _, err := in.ready(polling); err == nil { // take no message before it can be processed
				l.poll(polling, life)
			}
		})
	}
	in.supervise(life)
	end()
	listeners.Wait()
}

// firstTries is the number of attempts to start the first process. An attempt fails if another program has taken the port.
const firstTries = 3

// supervise runs the handler process and restarts it until ctx ends. It gives up if the first process does not start.
func (in *instance) supervise(ctx context.Context) {
	runtime.LockOSThread() // see contain
	defer runtime.UnlockOSThread()
	ever := false // a process has been ready
	for try := 1; ; try++ {
		p, err := in.start(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !ever && (try == firstTries || !errors.Is(err, errExited)):
			in.started <- err
			return
		case err != nil:
			in.log.Error().Err(err).Msg("the handler process does not start")
			task.Sleep(ctx, in.host.options.Times.Restart)
			continue
		case !ever:
			ever = true
			in.started <- nil
		}
		in.publish(p)
		select {
		case <-ctx.Done():
			p.recycle()
		case <-p.done:
		}
		in.publish(nil)
		switch {
		case ctx.Err() != nil:
			return
		case p.wanted.Load(), p.code == 200: // like the real host
			in.log.Info().Msg("the handler process has ended, and is being restarted")
		default:
			in.log.Error().Msgf("the handler process exited with code %d, and is being restarted", p.code)
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
	in.log.Info().Int("pid", p.cmd.Process.Pid).Str("url", "http://"+p.address).Msg("the handler process is ready")
	return p, nil
}

// publish makes p the process for invocations. If p is nil, invocations wait.
func (in *instance) publish(p *process) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.process = p
	if p != nil {
		close(in.published)
		in.published = make(chan struct{})
	}
}

// ready returns the process, after waiting for its start if necessary.
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

func (in *instance) current() *process {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.process
}

// recycle kills the current process. supervise then starts another one.
func (in *instance) recycle() {
	if p := in.current(); p != nil {
		p.recycle()
	}
}
