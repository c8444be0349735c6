// Package function is the Azure Functions custom handler: the HTTP server that
// the Functions host calls, one route for each function.
//
// Queue and timer functions are called with the host's JSON envelope and must
// answer with one (envelope.go). HTTP functions are forwarded: they see the
// caller's own request under /api and their answer goes to the caller as it is.
// What a function does is in package engine; this package translates.
package function

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/rs/zerolog"

	"tablesweep/internal/engine"
	"tablesweep/internal/logtail"
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
	maxBody int64    // of a request to an HTTP function, in bytes; 0 means maxRequest

	// invoke handles a queue message or a timer; http handles a request.
	invoke func(context.Context, Invocation) error
	http   http.Handler
}

// App is what the functions call.
type App struct {
	Engine   *engine.Engine
	Log      *logtail.Streams
	Catalogs Catalogs
}

// maintain completes and tidies up whatever there is, all parts at once: none is kept
// from its turn by another's errors, or by the time that another takes.
func (a App) maintain(ctx context.Context, _ Invocation) error {
	parts := []func(context.Context) error{a.Engine.Maintain, a.Log.Maintain}
	for _, name := range slices.Sorted(maps.Keys(a.Catalogs)) {
		parts = append(parts, a.Catalogs[name].Maintain)
	}
	errs := make([]error, len(parts))
	var g sync.WaitGroup
	for i, part := range parts {
		g.Go(func() { errs[i] = part(ctx) })
	}
	g.Wait()
	// A part with nothing to do, such as a catalog that is being moved to another
	// schema, must not speak for one that failed.
	failed := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return problem.FateOf(err) == problem.Done })
	if len(failed) > 0 {
		return errors.Join(failed...)
	}
	return errors.Join(errs...)
}

// Functions lists the app's functions. Routes are made of this list, and a test
// compares it with the function folders.
func Functions(a App) []Function {
	step := func(ctx context.Context, i Invocation) error { return a.Engine.Run(ctx, i.Body, i.Delivery) }
	return []Function{
		{Name: engine.ScanPrefix, Trigger: Queue, Queue: engine.Queues[engine.ScanPrefix], invoke: step},
		{Name: engine.ScanPartition, Trigger: Queue, Queue: engine.Queues[engine.ScanPartition], invoke: step},
		{Name: engine.CopyRows, Trigger: Queue, Queue: engine.Queues[engine.CopyRows], invoke: step},
		{Name: "Maintain", Trigger: Timer, Schedule: "0 * * * * *", invoke: a.maintain},
		{Name: "Scans", Trigger: HTTP, Route: "scans/{*path}", Methods: []string{"GET", "POST", "DELETE"}, http: scansHandler(a.Engine)},
		{Name: "EventLog", Trigger: HTTP, Route: "log/{*stream}", Methods: []string{"GET", "POST"}, maxBody: maxEventBytes, http: logHandler(a.Log)},
		{Name: "CatalogInsert", Trigger: HTTP, Route: catalogRoute, Methods: []string{"POST", "PUT"}, maxBody: maxRecord,
			http: a.Catalogs.handler(served{"POST", "records", insertRecord}, served{"PUT", "records", replaceRecord})},
		{Name: "CatalogQuery", Trigger: HTTP, Route: catalogRoute, Methods: []string{"GET"},
			http: a.Catalogs.handler(served{"GET", "records", findRecords}, served{"GET", "changes", listChanges})},
		{Name: "CatalogDelete", Trigger: HTTP, Route: catalogRoute, Methods: []string{"DELETE"},
			http: a.Catalogs.handler(served{"DELETE", "records", deleteRecords})},
	}
}

// Limits on what a caller may send, and on the time that answering may take: the
// host kills the process, with all that it has under way, when functionTimeout is
// over, and gives up waiting for an HTTP answer after 230 s. (Microsoft Learn, "Azure
// Functions scale and hosting")
const (
	// maxEnvelope admits a queue message of 64 KiB, escaped twice as a string
	// in a string, and its top-level properties again as metadata.
	maxEnvelope   = 1 << 20
	maxRequest    = 64 << 10
	maxEventBytes = 4 << 20 // about what one transaction takes
	maxRecord     = 4 << 20 // a row's 1 MiB of UTF-16 is three times as long if every character is escaped

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
	mounted := map[string]byMethod{}
	for _, f := range functions {
		if f.Trigger == HTTP {
			base := "/api/" + routeBase(f.Route)
			if mounted[base] == nil {
				mounted[base] = byMethod{}
				r.Mount(base, mounted[base])
			}
			for _, m := range f.Methods {
				mounted[base][m] = limited(cmp.Or(f.maxBody, maxRequest), requestTime, f.http)
			}
			continue
		}
		r.Post("/"+f.Name, limited(maxEnvelope, invocationTime, invocationHandler(f)).ServeHTTP)
	}
	return r
}

// byMethod serves a route that several functions share, each with methods of its own, as
// the host does. (azure-functions-host, pull request 763)
type byMethod map[string]http.Handler

func (m byMethod) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h := m[r.Method]; h != nil {
		h.ServeHTTP(w, r)
		return
	}
	notFound(w, r)
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
