package function

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/go-chi/chi/v5"

	"tablesweep/docs"
	"tablesweep/internal/function/health"
)

// serviceRoute admits exactly what Service serves.
const serviceRoute = "{name:regex(^(health|openapi[.]json)$)}"

// healthTime is how old an answer of /api/health may be, so that who asks often costs little.
const healthTime = 10 * time.Second

// serviceRoutes serves what the app says of itself. No gate holds these calls back.
//
// caller: whoever watches the app, and "handler doctor".
func serviceRoutes(a App) func(chi.Router) {
	h := healthCache{app: a, last: make(chan health.Report, 1)}
	h.last <- health.Report{}
	return func(r chi.Router) {
		r.Get("/api/health", failing(func(w http.ResponseWriter, r *http.Request) error {
			if _, err := parameters(r); err != nil {
				return err
			}
			report, status := h.get(r.Context()), http.StatusOK
			if report.Status == health.Failed {
				status = http.StatusServiceUnavailable
			}
			writeJSON(w, r, status, report)
			return nil
		}))
		r.Get("/api/openapi.json", failing(func(w http.ResponseWriter, r *http.Request) error {
			_, err := parameters(r)
			if err == nil {
				writeBytes(w, r, http.StatusOK, "application/json", docs.OpenAPI)
			}
			return err
		}))
	}
}

// healthCache keeps the last report for [healthTime]. Whoever takes it out may make a new one.
type healthCache struct {
	app  App
	last chan health.Report // one
}

func (h healthCache) get(ctx context.Context) health.Report {
	asked := time.Now()
	last := <-h.last
	defer func() { h.last <- last }()
	if asked.Sub(last.At) >= healthTime { // those who waited for a report take it, however long it took
		// A caller that leaves must not spoil the answer for the others.
		last = health.NewReport(time.Now(), h.app.checks(context.WithoutCancel(ctx)))
	}
	return last
}

// checks returns what the app knows of itself, and what its storage tells.
func (a App) checks(ctx context.Context) []health.Check {
	settings := health.Of("settings", "right", a.Gates.Settings.Err())
	if settings.State != health.OK {
		return []health.Check{settings}
	}
	checks := []health.Check{settings, health.Of("storage", "prepared", a.Gates.Own.Err())}
	for _, name := range slices.Sorted(maps.Keys(a.Gates.Catalogs)) {
		c := health.Of("catalog "+a.Catalogs[name].Name, "prepared", a.Gates.Catalogs[name].Err())
		if c.State == health.Failed { // scans work without it
			c.State = health.Warning
		}
		checks = append(checks, c)
	}
	return append(checks, a.Health.Check(ctx)...)
}
