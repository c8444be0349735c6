// Package function is the Azure Functions custom handler: the HTTP server that
// the Functions host calls, one route for each function.
//
// Queue and timer functions are called with the host's JSON envelope and must
// answer with one (envelope.go). HTTP functions are forwarded: they see the
// caller's own request under /api and their answer goes to the caller as it is.
// What a function does is in package engine; this package translates.
package function

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/rs/zerolog"

	"tablesweep/internal/engine"
	"tablesweep/internal/problem"
)

// Trigger is what makes the host call a function.
type Trigger string

// The triggers, by the type of their binding in function.json.
const (
	Queue Trigger = "queueTrigger"
	Timer Trigger = "timerTrigger"
	HTTP  Trigger = "httpTrigger"
)

// Function is one function of the app: what its folder's function.json says,
// and what handles it.
type Function struct {
	Name    string
	Trigger Trigger

	Queue    string // name of the queue, of a queue function
	Schedule string // NCRONTAB, of a timer function

	Route   string   // below /api, of an HTTP function
	Methods []string // of an HTTP function

	// invoke handles a queue message or a timer; http handles a request.
	invoke func(context.Context, Invocation) error
	http   http.Handler
}

// Functions lists the app's functions. Routes are made of this list, and a test
// compares it with the function folders.
func Functions(e *engine.Engine) []Function {
	step := func(ctx context.Context, i Invocation) error { return e.Run(ctx, i.Body, i.Delivery) }
	maintain := func(ctx context.Context, _ Invocation) error { return e.Maintain(ctx) }
	return []Function{
		{Name: engine.ScanPrefix, Trigger: Queue, Queue: engine.Queues[engine.ScanPrefix], invoke: step},
		{Name: engine.ScanPartition, Trigger: Queue, Queue: engine.Queues[engine.ScanPartition], invoke: step},
		{Name: engine.CopyRows, Trigger: Queue, Queue: engine.Queues[engine.CopyRows], invoke: step},
		{Name: "Maintain", Trigger: Timer, Schedule: "0 * * * * *", invoke: maintain},
		{Name: "Scans", Trigger: HTTP, Route: "scans/{*path}", Methods: []string{"GET", "POST", "DELETE"}, http: scansHandler(e)},
	}
}

// Limits on what a caller may send, and on the time that answering may take: the
// host kills the process, with all that it has under way, when functionTimeout is
// over, and gives up waiting for an HTTP answer after 230 s. (Microsoft Learn, "Azure
// Functions scale and hosting")
const (
	// maxEnvelope admits a queue message of 64 KiB, escaped twice as a string
	// in a string, and its top-level properties again as metadata.
	maxEnvelope = 1 << 20
	maxRequest  = 64 << 10

	invocationTime = 9 * time.Minute
	requestTime    = 200 * time.Second
)

// Handler returns the handler's routes. log is the logger that functions find in
// their context, with the invocation's id added.
func Handler(functions []Function, log zerolog.Logger) http.Handler {
	r := chi.NewRouter()
	r.Use(withLogger(log), recovered)
	r.NotFound(notFound)
	r.MethodNotAllowed(notFound)                              // as the host answers methods that function.json does not list
	r.Get("/", func(w http.ResponseWriter, _ *http.Request) { // the host asks here whether we are up
		w.WriteHeader(http.StatusNoContent)
	})
	for _, f := range functions {
		if f.Trigger == HTTP {
			r.Mount("/api/"+routeBase(f.Route), limited(maxRequest, requestTime, f.http))
			continue
		}
		r.Post("/"+f.Name, limited(maxEnvelope, invocationTime, invocationHandler(f)).ServeHTTP)
	}
	return r
}

func notFound(w http.ResponseWriter, r *http.Request) {
	writeProblem(w, r, &problem.Error{Kind: problem.NotFound, Detail: fmt.Sprintf("there is no %s %s", r.Method, r.URL.Path)})
}

// routeBase returns the fixed part of a route template such as scans/{*path}.
func routeBase(route string) string {
	for i, c := range route {
		if c == '{' {
			return route[:max(0, i-1)]
		}
	}
	return route
}

func limited(bytes int64, t time.Duration, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), t)
		defer cancel()
		r.Body = http.MaxBytesReader(w, r.Body, bytes)
		h.ServeHTTP(w, r.WithContext(ctx))
	})
}

// withLogger gives each request a logger that names its invocation.
func withLogger(log zerolog.Logger) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			l := log
			if id := r.Header.Get("X-Azure-Functions-InvocationId"); id != "" {
				l = log.With().Str("invocation", id).Logger()
			}
			next.ServeHTTP(w, r.WithContext(l.WithContext(r.Context())))
		})
	}
}

// recovered turns a panic into an error of that one invocation: the process has
// others under way.
func recovered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if v := recover(); v != nil {
				writeProblem(w, r, fmt.Errorf("panic: %v\n%s", v, debug.Stack()))
			}
		}()
		next.ServeHTTP(w, r)
	})
}
