package sim

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"tablesweep/internal/app/envelope"
	"tablesweep/internal/app/function"
	"tablesweep/internal/app/gate"
	"tablesweep/internal/app/hostjson"
	"tablesweep/internal/local/host"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/engine"
	"tablesweep/internal/storage"
	"tablesweep/internal/stream/logtail"
	"tablesweep/internal/task"
)

// slot contains one machine after the other.
type slot struct {
	Machine
	*world
	number  int
	left    []Accident
	machine atomic.Pointer[machine] // nil if there is none
}

// machine is an instance of the app: the host's listeners and a handler process.
type machine struct {
	*slot
	name    string
	gone    context.Context // ends when the machine is lost
	lose    context.CancelFunc
	account *storage.Account          // the account as the host opens it
	lives   int                       // the number of handler processes so far
	process atomic.Pointer[process]   // nil if there is none
	lost    atomic.Pointer[time.Time] // when the machine was lost
}

func (m *machine) end() {
	now := time.Now()
	if m.lost.CompareAndSwap(nil, &now) && m.holder.Load() == m {
		m.count(&m.stats.Orphaned)
	}
	m.lose()
}

// process is a handler process. It ends when its context gone ends.
type process struct {
	gone    context.Context
	end     context.CancelFunc
	handler http.Handler
}

// take removes and returns the next accident of the host or of the handler. It returns nil if there is none.
func (p *slot) take(host bool) *Accident {
	i := slices.IndexFunc(p.left, func(a Accident) bool { return a.Host == host })
	if i < 0 {
		return nil
	}
	a := p.left[i]
	p.left = slices.Concat(p.left[:i], p.left[i+1:])
	return &a
}

// keep runs one machine after the other in the slot until the run ends.
func (p *slot) keep() {
	// Machines start at different times. Otherwise the scheduler would decide which of them gets which random name.
	task.Sleep(p.over, time.Duration(draw(p.plan.Seed, "slot", strconv.Itoa(p.number))%uint64(time.Millisecond)))
	for life := 1; p.over.Err() == nil; life++ {
		m := &machine{slot: p, name: fmt.Sprintf("m%d.%d", p.number, life)}
		m.gone, m.lose = context.WithCancel(p.over)
		m.account = p.open(p.storage, &wire{
			world: p.world, name: m.name + " host", gone: m.gone, die: func(Kind) { m.end() },
			host: true, seen: map[uint64]int{}, accident: p.take(true),
		})
		p.machine.Store(m)
		m.run()
		p.machine.Store(nil)
		p.log.Info().Str("machine", m.name).Msg("lost")
		if !task.Sleep(p.over, p.Replace) || p.dark.Load() && !p.wait() {
			return
		}
	}
}

// run runs the machine until it is lost. Afterwards, its goroutines end by themselves.
func (m *machine) run() {
	defer m.lose()
	for _, f := range function.Functions(function.App{}) {
		if f.Trigger == function.Queue {
			m.group.Go(func() { m.listen(f) })
		}
	}
	for m.gone.Err() == nil {
		p := m.start()
		m.process.Store(p)
		<-p.gone.Done()
		m.process.Store(nil)
		m.log.Info().Str("machine", m.name).Msg("handler ended")
		if !task.Sleep(m.gone, m.Restart) {
			return
		}
	}
}

// hostQueues are the queue settings of host.json. A test checks that both are equal. Plans change only the longest pause between polls.
var hostQueues = hostjson.Queues{
	BatchSize: 8, NewBatchThreshold: 4, Visibility: 10 * time.Second, MaxDequeue: scans.MaxDeliveries, Base64: true,
}

// listen passes a queue's messages to its function until the machine is lost.
func (m *machine) listen(f function.Function) {
	settings := hostQueues
	settings.MaxPolling = m.plan.MaxPolling
	waits := rand.New(rand.NewPCG(m.plan.Seed, draw(m.plan.Seed, m.name, f.Name)))
	host.Poll(m.gone, m.gone, queue(m.account, f.Queue), queue(m.account, f.Queue+"-poison"), settings, waits.Float64, m.appLog,
		func(_ context.Context, got envelope.Message) error {
			err := <-m.invoke(f.Name, envelope.Queue(f.Name, got), got.PopReceipt)
			m.log.Debug().Str("machine", m.name).Str("message", got.ID).Int("delivery", got.DequeueCount).Err(err).Msg("handled")
			return err
		})
}

// start starts a handler process in the same way as package main. The process receives calls immediately, while it prepares its storage.
func (m *machine) start() *process {
	m.lives++
	gone, end := context.WithCancel(m.gone)
	l := &wire{
		world: m.world, name: m.name + " handler " + strconv.Itoa(m.lives), gone: gone,
		seen: map[uint64]int{}, accident: m.take(false),
	}
	l.die = func(k Kind) {
		end()
		if k == Loss {
			m.end()
		}
	}
	if m.Life > 0 {
		m.group.Go(func() {
			task.Sleep(gone, m.Life)
			end()
		})
	}
	account, beside := m.open(m.storage, l), m.open(m.second, l)
	e, err := engine.New(scans.Options{
		Own: account, Accounts: m.accounts(account, beside), StateTable: stateTable, FoldEvery: m.plan.FoldEvery,
		Now: func() time.Time { return time.Now().Add(m.Skew) },
	})
	if err != nil {
		m.violated("engine.New: %v", err)
	}
	app := function.App{Engine: *e, Log: logtail.New(logtail.Options{Table: account.Table("log")}), Gates: function.Gates{Own: gate.New()}}
	m.group.Go(func() { app.Gates.Own.Prepare(gone, e.TryPrepare, func(error) {}) })
	return &process{gone: gone, end: end, handler: function.Handler(function.Functions(app), function.Host{}, m.appLog)}
}

// ready waits until there is a handler process, and returns it. If the machine is lost, ready returns nil.
func (m *machine) ready() *process {
	for {
		p := m.process.Load()
		if p != nil || m.gone.Err() != nil {
			return p
		}
		task.Sleep(m.gone, 100*time.Millisecond)
	}
}

// functionTimeout is the timeout in host.json. If an invocation takes longer, its handler is killed, which ends all other invocations of the handler.
const functionTimeout = 10 * time.Minute

// answer is a handler's answer to an HTTP request.
type answer struct {
	status      int
	contentType string
	body        []byte
	err         error // the process ended before it answered
}

// invocationKey is the key of an invocation's identity in a context.
type invocationKey struct{}

// call sends the handler a request and returns its answer. It returns immediately when the process ends. caller distinguishes the call from other calls at
// the same time.
func (m *machine) call(method, path string, body []byte, caller string) <-chan answer {
	answered := make(chan answer, 1)
	m.group.Go(func() {
		p := m.ready()
		// Calls that waited for a handler are sent at different times, because timers that end together have a random order.
		task.Sleep(m.gone, time.Duration(draw(m.plan.Seed, m.name, path, caller)%uint64(time.Millisecond)))
		if p == nil {
			answered <- answer{err: errDead}
			return
		}
		req := httptest.NewRequest(method, path, bytes.NewReader(body)).WithContext(context.WithValue(p.gone, invocationKey{}, caller))
		if len(body) > 0 && path[:5] != "/api/" {
			req.ContentLength = -1 // the host streams its document
			req.Header.Set("Content-Type", envelope.ContentType)
		}
		req.Header.Set(envelope.HeaderInvocation, uuid.NewString())
		done := make(chan answer, 1)
		m.group.Go(func() {
			w := httptest.NewRecorder()
			p.handler.ServeHTTP(w, req)
			resp := w.Result()
			b, _ := io.ReadAll(resp.Body) // the answer is in memory
			done <- answer{status: resp.StatusCode, contentType: resp.Header.Get("Content-Type"), body: b}
		})
		limit := time.NewTimer(functionTimeout)
		defer limit.Stop()
		select {
		case a := <-done:
			if p.gone.Err() != nil {
				a = answer{err: errDead}
			}
			answered <- a
		case <-p.gone.Done():
			answered <- answer{err: errDead}
		case <-limit.C:
			m.violated("%s: an invocation of %s took longer than %v", m.name, path, functionTimeout)
			p.end()
			answered <- answer{err: errDead}
		}
	})
	return answered
}

// invoke calls a queue or timer function with the host's document.
func (m *machine) invoke(name string, document []byte, caller string) <-chan error {
	failed := make(chan error, 1)
	m.group.Go(func() {
		a := <-m.call(http.MethodPost, "/"+name, document, caller)
		if a.err == nil {
			var answer envelope.Answer
			answer, a.err = envelope.ParseAnswer(a.status, a.contentType, a.body)
			if slices.ContainsFunc(answer.Logs, func(line string) bool { return strings.HasSuffix(line, "; another delivery has committed the step") }) {
				m.count(&m.stats.Repeated)
			}
		}
		failed <- a.err
	})
	return failed
}
