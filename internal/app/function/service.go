package function

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"tablesweep/docs"
	"tablesweep/internal/app/health"
	"tablesweep/internal/task"
)

// serviceRoute matches only the paths of the function Service.
const serviceRoute = "{name:regex(^(health|openapi[.]json)$)}"

// healthTime is the maximum age of an answer of /api/health that is reused.
const healthTime = 10 * time.Second

// serviceCalls returns the calls for information about the app. No gate delays them.
//
// The callers are monitoring systems and "tablesweep doctor".
func serviceCalls(a App) []call {
	h := healthCache{app: a, last: make(chan health.Report, 1)}
	h.last <- health.Report{}
	return []call{{method: "GET", path: "health", needs: needsNothing, serve: withQuery(h.serve)}, {method: "GET", path: "openapi.json", needs: needsNothing, serve: withQuery(getOpenAPI)}}
}

func getOpenAPI(w http.ResponseWriter, r *http.Request, _ url.Values) error {
	writeBytes(w, r, http.StatusOK, "application/json", docs.OpenAPI)
	return nil
}

// healthCache keeps the last report for [healthTime]. The channel lets only one caller at a time make a new report.
type healthCache struct {
	app  App
	last chan health.Report // contains one report
}

func (h healthCache) serve(w http.ResponseWriter, r *http.Request, _ url.Values) error {
	report, status := h.get(r.Context()), http.StatusOK
	if report.Status == health.Failed {
		status = http.StatusServiceUnavailable
	}
	writeJSON(w, r, status, report)
	return nil
}

func (h healthCache) get(ctx context.Context) health.Report {
	began := time.Now()
	last := <-h.last
	defer func() { h.last <- last }()
	if began.Sub(last.At) >= healthTime { // a caller accepts a report that was new enough when its call began
		// If one caller disconnects, the others still need a complete answer.
		last = health.NewReport(time.Now(), h.app.checks(context.WithoutCancel(ctx)))
	}
	return last
}

func (a App) checks(ctx context.Context) []health.Check {
	settings := health.NewCheck("settings", "right", a.Gates.Settings.Err())
	if settings.State != health.OK {
		return []health.Check{settings}
	}
	checks := []health.Check{settings, health.NewCheck("storage", "prepared", a.Gates.Own.Err())}
	for _, name := range slices.Sorted(maps.Keys(a.Gates.Catalogs)) {
		c := health.NewCheck("catalog "+a.Catalogs[name].Name, "prepared", a.Gates.Catalogs[name].Err())
		if c.State == health.Failed { // only a warning, because scans work without a catalog
			c.State = health.Warning
		}
		checks = append(checks, c)
	}
	var schedules []health.Check
	var g task.Group
	if a.Gates.Own.Err() == nil {
		g.Go(func() error {
			schedules = a.checkSchedules(ctx)
			return nil
		})
	}
	checks = append(checks, a.Health.Check(ctx)...)
	if err := g.Wait(); err != nil { // a panic
		schedules = []health.Check{health.NewCheck("schedules", "", err)}
	}
	return append(checks, schedules...)
}
