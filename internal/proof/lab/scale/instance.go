package scale

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"tablesweep/internal/app/envelope"
	"tablesweep/internal/app/function"
	"tablesweep/internal/local/host"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/engine"
	"tablesweep/internal/storage"
	"tablesweep/internal/stream/logtail"
)

// instance is a machine of the app: the host's listeners and a handler process.
type instance struct {
	*cloud
	handler http.Handler

	mu   sync.Mutex // guards free
	free time.Time  // the time at which the processor will have finished all its work
}

// process waits until the processor has finished its earlier work and this work.
func (in *instance) process(work time.Duration) {
	// Shorter waits are added up until they exceed the leeway, which saves most of the simulation's timers.
	const leeway = time.Millisecond
	in.mu.Lock()
	now := time.Now()
	if in.free.Before(now) {
		in.free = now
	}
	in.free = in.free.Add(work)
	wait := in.free.Sub(now)
	in.mu.Unlock()
	if wait > leeway {
		time.Sleep(wait)
	}
}

// wire carries an instance's requests to an account. It is the Transport of [storage.Options].
type wire struct {
	*instance
	account *account
}

// Do sends a request.
func (w wire) Do(req *http.Request) (*http.Response, error) {
	w.process(requestCost + kilobytes(req.ContentLength, sentCost))
	resp, err := w.account.transport.Do(req)
	if err == nil {
		w.process(kilobytes(resp.ContentLength, receivedCost))
	}
	return resp, err
}

func kilobytes(n int64, each time.Duration) time.Duration {
	return time.Duration(float64(max(n, 0)) / 1024 * float64(each))
}

// open returns the account for the instance's own requests.
func (in *instance) open(a *account) *storage.Account {
	return must(storage.Open(a.connection, storage.Options{Transport: wire{in, a}}))
}

// launch starts the instance, and returns when it receives calls and the messages of the queue. If queue is "", it receives no messages.
func (in *instance) launch(queue string) {
	time.Sleep(coldStart)
	own := in.open(in.own)
	e := must(engine.New(scans.Options{
		Own: own, StateTable: "tablesweep",
		Accounts: map[string]*storage.Account{sourceTable.Connection: in.open(in.source), destinationTable.Connection: in.open(in.destination)},
	}))
	if err := e.TryPrepare(in.over); in.over.Err() == nil {
		must(e, err)
	}
	functions := function.Functions(function.App{Engine: *e, Log: logtail.New(logtail.Options{Table: own.Table("log")})})
	in.handler = function.Handler(functions, function.Host{}, zerolog.Nop())
	for _, f := range functions {
		if f.Trigger == function.Queue && f.Queue == queue {
			in.work.Go(func() { in.listen(own, f) })
		}
	}
}

// listen passes a queue's messages to its function until the run ends.
func (in *instance) listen(own *storage.Account, f function.Function) {
	messages, poison := must(own.Queue(f.Queue)), must(own.Queue(f.Queue+"-poison"))
	waits := rand.New(rand.NewPCG(seed, in.listeners.Add(1)))
	host.Poll(in.over, in.over, messages, poison, hostQueues, waits.Float64, zerolog.Nop(), func(ctx context.Context, m envelope.Message) error {
		return in.execute(ctx, f.Name, envelope.Queue(f.Name, m))
	})
}

// execute runs a function that is triggered by a queue or a timer.
func (in *instance) execute(ctx context.Context, name string, document []byte) error {
	in.process(executionCost)
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
