// Package function is the Azure Functions custom handler: the HTTP server that the Functions host calls, with a route for each
// function.
//
// The host calls queue and timer functions with a JSON envelope, and expects one in return (envelope.go). The host proxies calls of HTTP functions:
// the function receives the caller's request below /api, and the caller receives the function's answer. This package only translates calls for
// packages engine, catalog and logtail.
//
// Start with function.go, which lists the functions. http.go contains the rules for all calls; scans.go, catalog.go and
// eventlog.go contain the calls.
package function

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"tablesweep/internal/app/gate"
	"tablesweep/internal/app/health"
	"tablesweep/internal/problem"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/engine"
	"tablesweep/internal/storage"
	"tablesweep/internal/stream/logtail"
	"tablesweep/internal/task"
	"tablesweep/internal/task/memory"
)

// Trigger is the event that makes the host call a function.
type Trigger string

// The triggers, by the type of their binding in function.json.
const (
	Queue Trigger = "queueTrigger"
	Timer Trigger = "timerTrigger"
	HTTP  Trigger = "httpTrigger"
)

// Function is one function of the app: the content of its function.json, and its handler.
type Function struct {
	Name    string
	Trigger Trigger

	Queue    string // for a queue function, the queue's name
	Schedule string // for a timer function, its NCRONTAB expression

	Route     string   // for an HTTP function, its route below /api
	Methods   []string // for an HTTP function; if empty, the host passes on all methods, and the app refuses wrong ones
	maxBody   int64    // for an HTTP function, the maximum bytes of a body; 0 means maxRequest
	Anonymous bool     // calls of this HTTP function need no key

	gates  []*gate.Gate
	memory *memory.Budget
	// invoke handles a queue message or a timer.
	invoke func(context.Context, Invocation) (report string, err error)
	calls  []call // calls of an HTTP function
}

// App contains the data and services that the functions use.
type App struct {
	Memory   *memory.Budget // the memory that all calls together may use; nil for no limit
	Engine   engine.Engine  // the zero value until the storage is ready
	Log      *logtail.Streams
	Catalogs Catalogs
	Gates    Gates
	Health   health.App // the data for GET /api/health
	// SchedulesErr describes invalid schedules in the settings. They do not stop the app.
	SchedulesErr error
	Console      bool // whether the console is served
}

// Gates delay calls until the storage that they need is ready. A nil gate is open.
type Gates struct {
	Settings *gate.Gate            // permanently closed if the app's settings are wrong
	Own      *gate.Gate            // the app's own storage, for scans and the event log
	Catalogs map[string]*gate.Gate // each catalog's storage, by the catalog's name
}

// maintain maintains scans, streams and catalogs concurrently, so that none delays or fails the others.
func (a App) maintain(ctx context.Context, _ Invocation) (string, error) {
	behind := func(g *gate.Gate, part func(context.Context) error) func(context.Context) error {
		return func(ctx context.Context) error {
			if err := g.Pass(ctx, awayTime); err != nil {
				return err
			}
			return part(ctx)
		}
	}
	schedules := func(ctx context.Context) error { return a.Engine.AdvanceSchedules(ctx, true) }
	parts := []func(context.Context) error{behind(a.Gates.Own, a.Engine.Maintain), behind(a.Gates.Own, schedules), behind(a.Gates.Own, a.Log.Maintain)}
	for _, name := range slices.Sorted(maps.Keys(a.Catalogs)) {
		parts = append(parts, behind(a.Gates.Catalogs[name], a.Catalogs[name].Maintain))
	}
	errs := make([]error, len(parts))
	var g task.Group
	for i, part := range parts {
		g.Go(func() error {
			errs[i] = task.Do(func() error { return part(ctx) })
			return nil
		})
	}
	_ = g.Wait() // errs contains each part's error
	// A part without work, such as a catalog during a migration, must not hide the failure of another part.
	failed := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return problem.FateOf(err) == problem.Done })
	if a.Gates.Own.Err() == nil {
		failed = append(failed, a.Engine.WriteMaintained(ctx, errors.Join(failed...)))
	}
	if err := errors.Join(failed...); err != nil {
		return "", err
	}
	return "", errors.Join(errs...)
}

// Functions lists the app's functions. A test compares the list with the function folders.
func Functions(a App) []Function {
	step := func(ctx context.Context, i Invocation) (string, error) { return a.Engine.Run(ctx, i.Body, i.Delivery) }
	settings, own := []*gate.Gate{a.Gates.Settings}, []*gate.Gate{a.Gates.Settings, a.Gates.Own}
	functions := []Function{
		{Name: scans.ScanPrefix, Trigger: Queue, Queue: scans.Queues[scans.ScanPrefix], gates: own, invoke: step},
		{Name: scans.ScanPartition, Trigger: Queue, Queue: scans.Queues[scans.ScanPartition], gates: own, invoke: step},
		{Name: scans.CopyRows, Trigger: Queue, Queue: scans.Queues[scans.CopyRows], gates: own, invoke: step},
		{Name: "Maintain", Trigger: Timer, Schedule: "0 * * * * *", gates: settings, invoke: a.maintain},
		{Name: "Scans", Trigger: HTTP, Route: "scans/{*path}", gates: own, calls: scanCalls(a.Engine)},
		{Name: "Schedules", Trigger: HTTP, Route: "schedules/{*path}", gates: own, calls: scheduleCalls(a)},
		{Name: "EventLog", Trigger: HTTP, Route: "log/{*stream}", maxBody: maxEventBytes, gates: own, calls: logCalls(a.Log)},
		{Name: "Console", Trigger: HTTP, Route: consoleRoute, Anonymous: true, calls: consoleCalls(a.Console)},
		{Name: "Service", Trigger: HTTP, Route: serviceRoute, calls: serviceCalls(a)},
		// The next functions share a route, but each has its own function key.
		{
			Name: "CatalogInsert", Trigger: HTTP, Route: catalogRoute, Methods: []string{"POST", "PUT", "PATCH"},
			maxBody: maxRecord, gates: settings, calls: a.catalogCalls(
				resource{"POST", "records", needsForRecords, insertRecord},
				resource{"PUT", "records", needsForRecord, replaceRecord}, resource{"PUT", oneRecord, needsForRecord, replaceRecord},
				resource{"PATCH", "records", needsForRecord, patchRecord}, resource{"PATCH", oneRecord, needsForRecord, patchRecord}),
		},
		{
			Name: "CatalogQuery", Trigger: HTTP, Route: catalogRoute, Methods: []string{"GET", "HEAD", "OPTIONS"},
			gates: settings, calls: append(a.catalogCalls(
				resource{"GET", "records", needsForRows, findRecords}, resource{"GET", "count", needsForRows, countRecords},
				resource{"GET", oneRecord, needsForRows, getRecord}, resource{"GET", "changes", needsForRows, listChanges}),
				call{method: "GET", path: "catalog", needs: needsNothing, serve: withQuery(a.Catalogs.list)}),
		},
		{
			Name: "CatalogDelete", Trigger: HTTP, Route: catalogRoute, Methods: []string{"DELETE"},
			gates: settings, calls: a.catalogCalls(
				resource{"DELETE", "records", needsForRows, deleteRecords}, resource{"DELETE", oneRecord, needsForRows, deleteRecords}),
		},
	}
	for i := range functions {
		functions[i].memory = a.Memory
	}
	return functions
}

// Handler returns the HTTP handler of all functions, for requests from the host. Each call's context contains a copy of `log` that
// adds the invocation's id.
func Handler(functions []Function, host Host, log zerolog.Logger) http.Handler {
	all := routes{}
	all.add(http.MethodGet, "/", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { // the host's health check
		w.WriteHeader(http.StatusNoContent)
	}))
	for _, f := range functions {
		invoked := withLimits(maxEnvelope, invocationTime, invocationHandler(f))
		if f.Trigger == HTTP {
			invoked = http.HandlerFunc(notProxiedHandler)
		}
		all.add(http.MethodPost, "/"+strings.ToLower(f.Name), invoked)
		for _, c := range f.calls {
			all.add(c.method, "/api/"+c.path, withLimits(cmp.Or(f.maxBody, maxRequest), requestTime, f.whenReady(c)))
		}
	}
	return keepPrivate(withLogger(log, withDeadlines(recoverPanics(host.onlyFromHost(readToEnd(onlyProxied(all.handler())))))))
}

// whenReady returns a handler that waits until the function's gates are open and the call has its part of the memory.
// If storage is unavailable, each of the call's storage requests waits at most [awayTime].
func (f Function) whenReady(c call) http.Handler {
	return withProblems(func(w http.ResponseWriter, r *http.Request) error {
		if err := checkHeaders(r); err != nil {
			return err
		}
		r = r.WithContext(storage.WithPatience(r.Context(), awayTime))
		for _, g := range f.gates {
			if err := g.Pass(r.Context(), awayTime); err != nil {
				return err
			}
		}
		if c.behind != nil {
			if err := c.behind(r); err != nil {
				return err
			}
		}
		return f.serveWithMemory(c, w, r)
	})
}
