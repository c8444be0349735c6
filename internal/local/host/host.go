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
	// Root is the app's directory, the one with host.json. Default: the working
	// directory.
	Root string
	// Executable, an absolute path, replaces host.json's defaultExecutablePath and its arguments.
	Executable string
	// Settings are app settings. They win over the environment, which wins over
	// local.settings.json.
	Settings map[string]string
	// Addr is where the app is served. Default 127.0.0.1:7071; port 0 takes a free one.
	Addr string
	// Instances is the number of handler processes. Default 1.
	Instances int
	// Functions are what the app has. Default: [function.Functions].
	Functions []function.Function
	// Key, if set, is required of requests, as in the cloud, but for those of the console. Beyond loopback addresses there is always
	// one; see [Host.Key].
	Key string
	// Times are shorter in tests. Default: the real host's.
	Times Times
	// Log gets the output of the host and its handlers. Default: none.
	Log zerolog.Logger
}

// Times are how long the host waits.
type Times struct {
	Drain   time.Duration // invocations under way may go on when the host ends
	Grace   time.Duration // from an invocation's time-out to the end of its process
	Pause   time.Duration // between two tries for a timer's lease while storage is away
	Restart time.Duration // from a handler that did not start to the next try
}

// defaultTimes are those of the real host, which has no Pause.
func defaultTimes() Times {
	return Times{Drain: 10 * time.Second, Grace: 2 * time.Second, Pause: 5 * time.Second, Restart: 3 * time.Second}
}

// Host is a running app.
type Host struct {
	options   Options
	app       hostjson.App
	command   command
	id        string           // names the host as the holder of leases
	client    *http.Client     // to the handlers
	own       *storage.Account // AzureWebJobsStorage
	instances []*instance
	functions []hosted
	listener  net.Listener
	next      atomic.Uint64 // round robin over instances

	stop    context.CancelFunc // begins the host's end
	busy    sync.WaitGroup     // goroutines that may finish their work then
	running sync.WaitGroup     // all goroutines
}

// hosted is a function with its trigger as the host plays it.
type hosted struct {
	function.Function
	queue    *storage.Queue // of a queue function
	poison   *storage.Queue // of a queue function; nil if failed messages have nowhere to go
	schedule calendar.Cron  // of a timer function
}

// Start runs the app in options.Root and returns when every instance is ready. It
// ends with ctx, or by [Host.Close].
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

// Key returns the key that requests need: that of the options, or a new one if the app can be reached from other machines. "" means none.
func (h *Host) Key() string { return h.options.Key }

// drain waits for invocations under way, at most [Times.Drain]. The real host
// then kills the handler processes. It never sends them a signal.
func (h *Host) drain() {
	done := make(chan struct{})
	go func() { // ends with the work, which ends with the processes
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
		return nil, errors.New("host.json: customHandler.enableProxyingHttpRequest must be true: the app answers requests as they were sent")
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

// bind makes the functions' triggers, but for functions that a setting or host.json turns off. It makes no
// request: storage that is away now may come back.
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
		listed := h.app.Only == nil || slices.ContainsFunc(h.app.Only, func(name string) bool { return strings.EqualFold(name, f.Name) })
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

// listeners returns an instance's listeners.
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

// pick returns the next instance whose handler is ready, or the next one if none is.
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

// URL returns where the app is served, such as http://127.0.0.1:7071.
func (h *Host) URL() string { return "http://" + h.listener.Addr().String() }

// PIDs returns the process ids of the handlers by instance, 0 for one that is
// being restarted.
func (h *Host) PIDs() []int {
	pids := make([]int, len(h.instances))
	for i, in := range h.instances {
		if p := in.current(); p != nil {
			pids[i] = p.cmd.Process.Pid
		}
	}
	return pids
}

// Kill ends an instance's handler process with SIGKILL, as a crash would: its
// invocations fail and are retried, and the process is restarted. Kill reports whether there was a process.
func (h *Host) Kill(instance int) bool {
	p := h.instances[instance].current()
	if p != nil {
		p.kill()
	}
	return p != nil
}

// Close ends the host in good order: it takes nothing new, waits up to
// [Times.Drain] for invocations, and kills the handler processes. Unfinished messages stay
// hidden until their lease ends. Close returns when nothing is left running.
func (h *Host) Close() {
	h.stop()
	_ = h.listener.Close()
	h.running.Wait()
	h.client.CloseIdleConnections()
}
