package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"tablesweep/internal/app/envelope"
	"tablesweep/internal/app/function"
	"tablesweep/internal/app/hostjson"
	"tablesweep/internal/input/loopback"
	"tablesweep/internal/scans/calendar"
	"tablesweep/internal/storage"
)

// Options configure a [Host].
type Options struct {
	// Root is the app's directory, which contains host.json. The default is the working directory.
	Root string
	// Executable is an absolute path. It replaces host.json's defaultExecutablePath and arguments.
	Executable string
	// Settings are app settings. They override the environment, which overrides local.settings.json.
	Settings map[string]string
	// Addr is the address on which the app is served. The default is 127.0.0.1:7071. Port 0 means any free port.
	Addr string
	// Instances is the number of handler processes. The default is 1.
	Instances int
	// Functions are the app's functions. The default is [function.Functions].
	Functions []function.Function
	// If Key is set, all requests except those for the console need the key, as in the cloud. On addresses other than
	// loopback, a key is always required; see [Host.Key].
	Key string
	// Times defaults to the real host's times. Tests shorten them.
	Times Times
	// Log receives the output of the host and its handlers. By default, there is no log.
	Log zerolog.Logger
}

// Times are the durations for which the host waits.
type Times struct {
	Drain   time.Duration // the time for which running invocations may continue after the host begins to stop
	Grace   time.Duration // the time between an invocation's time-out and the end of its process
	Pause   time.Duration // the time between two attempts to get a timer's lease while storage is unavailable
	Restart time.Duration // the time between a failed start of a handler and the next attempt
}

// defaultTimes returns the real host's times, except Pause, which the real host does not have.
func defaultTimes() Times {
	return Times{Drain: 10 * time.Second, Grace: 2 * time.Second, Pause: 5 * time.Second, Restart: 3 * time.Second}
}

// Host is a running app.
type Host struct {
	options   Options
	app       hostjson.App
	command   command
	id        string           // identifies the host as the holder of leases
	client    *http.Client     // for requests to the handlers
	own       *storage.Account // AzureWebJobsStorage
	instances []*instance
	functions []hosted
	listener  net.Listener
	next      atomic.Uint64 // counts requests, so that the instances get them in turn

	stop    context.CancelFunc // begins the shutdown
	busy    sync.WaitGroup     // goroutines that may finish their work during the shutdown
	running sync.WaitGroup     // all goroutines
}

// hosted is a function with the data of its trigger.
type hosted struct {
	function.Function
	queue    *storage.Queue // the queue of a queue function
	poison   *storage.Queue // the poison queue of a queue function; nil if failed messages are not moved
	schedule calendar.Cron  // the schedule of a timer function
}

// Start runs the app in options.Root until ctx ends or [Host.Close] is called. It returns when every instance is ready.
func Start(ctx context.Context, options Options) (*Host, error) {
	h, err := load(options)
	if err != nil {
		return nil, err
	}
	if h.listener, err = net.Listen("tcp", h.options.Addr); err != nil {
		return nil, fmt.Errorf("serve the app: %w", err)
	}
	if h.options.Key == "" && !loopback.Is(h.listener.Addr().String()) {
		h.options.Key = NewKey()
	}
	ctx, h.stop = context.WithCancel(ctx)
	work, kill := context.WithCancel(context.WithoutCancel(ctx))
	h.running.Go(func() {
		<-ctx.Done()
		h.drain()
		kill()
		h.busy.Wait()
	})
	for i := range h.options.Instances {
		in := newInstance(h, i)
		h.instances = append(h.instances, in)
		h.running.Go(func() { in.run(ctx, work) })
	}
	for _, in := range h.instances {
		select {
		case err = <-in.started:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if err != nil {
			h.Close()
			return nil, fmt.Errorf("instance %d: %w", in.id, err)
		}
	}
	h.serve(ctx, work)
	for _, f := range h.functions {
		if f.Trigger == function.Timer {
			h.busy.Go(func() { h.keepTimer(ctx, work, f) })
		}
	}
	return h, nil
}

// Key returns the key that requests need: the key of the options, or a new one if other machines can reach the app. If requests need no key,
// Key returns "".
func (h *Host) Key() string { return h.options.Key }

// drain waits up to [Times.Drain] for running invocations. Then the host kills the handlers without an earlier signal,
// as the real host does.
func (h *Host) drain() {
	done := make(chan struct{})
	go func() { // ends when the invocations end, at the latest when the processes are killed
		h.busy.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(h.options.Times.Drain):
	}
}

// load reads the app and resolves its settings.
func load(o Options) (*Host, error) {
	if o.Root == "" {
		o.Root = "."
	}
	if o.Addr == "" {
		o.Addr = "127.0.0.1:7071"
	}
	if o.Instances == 0 {
		o.Instances = 1
	}
	o.Times = cmp.Or(o.Times, defaultTimes())
	root := os.DirFS(o.Root)
	local, errLocal := hostjson.LocalSettings(root)
	settings := mergeSettings(local, os.Environ(), o.Settings)
	a, err := hostjson.Load(root, settings.Get)
	if err := errors.Join(errLocal, err); err != nil {
		return nil, fmt.Errorf("function app in %s: %w", o.Root, err)
	}
	if !a.Handler.Proxy {
		return nil, errors.New("host.json: customHandler.enableProxyingHttpRequest must be true, because the app needs the unchanged requests of its callers")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy, transport.DisableCompression = nil, true
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 0, 1024
	h := &Host{
		id:      uuid.NewString(),
		options: o, app: a, command: newCommand(o, a.Handler, settings),
		client: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		stop: func() {},
	}
	return h, h.bind(settings)
}

// bind creates the triggers of all functions except those that a setting or host.json disables. It sends no requests,
// because storage may become available later.
func (h *Host) bind(settings storage.Settings) error {
	connection, err := storage.SettingConnection(storage.HostConnection, storage.SettingsOf(h.command.env))
	if err == nil {
		h.own, err = storage.Open(connection, storage.Options{Name: storage.HostConnection, Patience: 10 * time.Second, Unproven: true})
	}
	if err != nil {
		return err
	}
	functions := h.options.Functions
	if functions == nil {
		functions = function.Functions(function.App{})
	}
	for _, f := range functions {
		listed := h.app.OnlyFunctions == nil || slices.ContainsFunc(h.app.OnlyFunctions, func(name string) bool { return strings.EqualFold(name, f.Name) })
		if !listed || strings.EqualFold(settings.Get("AzureWebJobs."+f.Name+".Disabled"), "true") {
			continue
		}
		b := hosted{Function: f}
		switch f.Trigger {
		case function.Queue:
			if b.queue, err = h.own.Queue(f.Queue); err == nil {
				b.poison, err = h.own.Queue(f.Queue + "-poison")
			}
		case function.Timer:
			b.schedule, err = calendar.ParseCron(f.Schedule)
		}
		if err != nil {
			return fmt.Errorf("function %s: %w", f.Name, err)
		}
		h.functions = append(h.functions, b)
	}
	return nil
}

func (h *Host) listeners(in *instance) []*listener {
	var list []*listener
	for _, f := range h.functions {
		if f.queue == nil {
			continue
		}
		list = append(list, &listener{
			queue: f.queue, poison: f.poison,
			options: h.app.Queues, random: rand.Float64,
			log: in.log.With().Str("function", f.Name).Logger(),
			invoke: func(ctx context.Context, m envelope.Message) error {
				v := in.newInvocation(f)
				_, err := v.invoke(ctx, envelope.Queue(f.Name, m))
				return err
			},
		})
	}
	return list
}

// pick returns the next instance whose handler is ready. If no handler is ready, it returns the next instance.
func (h *Host) pick() *instance {
	n := uint64(len(h.instances))
	start := h.next.Add(1)
	for i := range n {
		if in := h.instances[(start+i)%n]; in.current() != nil {
			return in
		}
	}
	return h.instances[start%n]
}

// URL returns the app's URL, such as http://127.0.0.1:7071.
func (h *Host) URL() string { return "http://" + h.listener.Addr().String() }

// PIDs returns the process ids of the handlers by instance; 0 for a handler that is being restarted.
func (h *Host) PIDs() []int {
	pids := make([]int, len(h.instances))
	for i, in := range h.instances {
		if p := in.current(); p != nil {
			pids[i] = p.cmd.Process.Pid
		}
	}
	return pids
}

// Kill ends an instance's handler process with SIGKILL, like a crash: its invocations fail and are retried, and the process is
// restarted. Kill reports whether there was a process.
func (h *Host) Kill(instance int) bool {
	p := h.instances[instance].current()
	if p != nil {
		p.kill()
	}
	return p != nil
}

// Close accepts no new work, waits up to [Times.Drain] for invocations, kills the handler processes, and returns when all goroutines have ended. Unfinished
// messages stay hidden until their lease ends.
func (h *Host) Close() {
	h.stop()
	_ = h.listener.Close()
	h.running.Wait()
	h.client.CloseIdleConnections()
}
