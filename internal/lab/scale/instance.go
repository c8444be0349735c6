package scale

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"tablesweep/internal/engine"
	"tablesweep/internal/function"
	"tablesweep/internal/host"
	"tablesweep/internal/host/envelope"
	"tablesweep/internal/logtail"
	"tablesweep/internal/storage"
)

// connections is how many requests an instance has under way at each host: package storage opens
// as many connections.
const connections = 256

// instance is a machine of the app: the host's listeners and a handler process.
type instance struct {
	*cloud
	processor processor
	handler   http.Handler
	queues    *storage.Account // the host's own clients

	mu        sync.Mutex // guards the fields below
	open      int        // requests under way
	most      int        // of these, at any time
	executing int        // now
	since     time.Time  // that some are
	active    time.Duration
	executed  int64
}

// processor hands out the time of an instance's cores, in the order of requests for it.
type processor struct {
	mu   sync.Mutex // guards the fields below
	free time.Time
	used time.Duration
}

// leeway is the shortest wait for the processor. Shorter waits add up until they reach it. That
// saves most of the simulation's timers.
const leeway = time.Millisecond

// use waits until a core has done so much work.
func (p *processor) use(work time.Duration) {
	p.mu.Lock()
	now := time.Now()
	if p.free.Before(now) {
		p.free = now
	}
	p.free = p.free.Add(time.Duration(float64(work) / cores))
	p.used += work
	wait := p.free.Sub(now)
	p.mu.Unlock()
	if wait > leeway {
		time.Sleep(wait)
	}
}

// wire carries an instance's requests to one host of an account.
type wire struct {
	*instance
	account *account
	slots   chan struct{}
}

func (w wire) Do(req *http.Request) (*http.Response, error) {
	select {
	case w.slots <- struct{}{}:
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
	defer func() { <-w.slots }()
	w.under(1)
	defer w.under(-1)
	w.processor.use(requestCost + kilobytes(req.ContentLength, sentCost))
	resp, err := w.account.transport.Do(req)
	if err == nil {
		w.processor.use(kilobytes(resp.ContentLength, receivedCost))
	}
	return resp, err
}

func kilobytes(n int64, each time.Duration) time.Duration {
	return time.Duration(float64(max(n, 0)) / 1024 * float64(each))
}

// under counts requests that are under way.
func (in *instance) under(change int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.open += change
	in.most = max(in.most, in.open)
}

// opened returns the account as the instance uses it. Each service of an account is a host
// of its own.
func (in *instance) opened(a *account) *storage.Account {
	tables, queues := wire{in, a, make(chan struct{}, connections)}, wire{in, a, make(chan struct{}, connections)}
	opened, err := storage.Open(a.connection, storage.Options{Transport: services{a.connection, tables, queues}, TryTimeout: -1})
	if err != nil {
		panic("scale: internal error: " + err.Error())
	}
	return opened
}

// services sends each request to its host.
type services struct {
	connection     storage.Connection
	tables, queues wire
}

func (s services) Do(req *http.Request) (*http.Response, error) {
	if strings.Contains(req.URL.Host, ".queue.") {
		return s.queues.Do(req)
	}
	return s.tables.Do(req)
}

// launch starts an instance of the group. It returns when the instance takes calls and messages.
func (g *group) launch() *instance {
	in := &instance{cloud: g.cloud}
	time.Sleep(coldStart)
	own := in.opened(g.own)
	in.queues = own
	e, err := engine.New(engine.Options{
		Own: own, StateTable: stateTable,
		Accounts: map[string]*storage.Account{sourceConnection: in.opened(g.source), destinationConnection: in.opened(g.destination)},
	})
	if err == nil {
		err = e.TryPrepare(g.over)
	}
	if err != nil {
		g.fail(fmt.Errorf("start an instance: %w", err))
		return in
	}
	app := function.App{Engine: e, Log: logtail.New(logtail.Options{Table: own.Table("log")})}
	functions := function.Functions(app)
	in.handler = function.Handler(functions, function.Host{}, g.log)
	for _, f := range functions {
		if f.Trigger == function.Queue && f.Queue == g.queue {
			g.work.Go(func() { in.listen(f) })
		}
	}
	return in
}

// listen passes a queue's messages to its function until the run ends.
func (in *instance) listen(f function.Function) {
	q, err := in.queues.Queue(f.Queue)
	poison, poisonErr := in.queues.Queue(f.Queue + "-poison")
	if err := errors.Join(err, poisonErr); err != nil {
		in.fail(err)
		return
	}
	waits := rand.New(rand.NewPCG(seed, in.listeners.Add(1)))
	host.Poll(in.over, in.over, q, poison, hostQueues, waits.Float64, in.log, func(ctx context.Context, m envelope.Message) error {
		return in.execute(ctx, f.Name, envelope.Queue(in.invocation(f.Name, "item"), m))
	})
}

func (in *instance) invocation(name, binding string) envelope.Invocation {
	return envelope.Invocation{Function: name, Binding: binding, Time: time.Now(), RandGUID: uuid.NewString()}
}

// execute runs a queue's or a timer's function.
func (in *instance) execute(ctx context.Context, name string, document []byte) error {
	in.begin()
	defer in.end()
	in.processor.use(executionCost)
	ctx, cancel := context.WithTimeout(ctx, functionTimeout)
	defer cancel()
	req := httptest.NewRequest(http.MethodPost, "/"+name, bytes.NewReader(document)).WithContext(ctx)
	req.ContentLength = -1
	req.Header.Set("Content-Type", envelope.ContentType)
	a := in.call(req)
	_, err := envelope.ParseAnswer(a.Code, a.Header().Get("Content-Type"), a.Body.Bytes())
	return err
}

// call sends the handler a request and returns its answer.
func (in *instance) call(req *http.Request) *httptest.ResponseRecorder {
	req.Header.Set(envelope.HeaderInvocation, uuid.NewString())
	w := httptest.NewRecorder()
	in.handler.ServeHTTP(w, req)
	return w
}

func (in *instance) begin() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.executing++; in.executing == 1 {
		in.since = time.Now()
	}
	in.executed++
}

func (in *instance) end() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.executing--; in.executing == 0 {
		in.active += time.Since(in.since)
	}
}
