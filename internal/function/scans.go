package function

import (
	"context"
	"net"
	"net/http"

	"github.com/go-chi/chi/v5"

	"tablesweep/internal/engine"
	"tablesweep/internal/engine/ledger"
	"tablesweep/internal/input"
	"tablesweep/internal/logtail"
	"tablesweep/internal/problem"
	"tablesweep/internal/problem/secret"
)

const (
	defaultTop = 20
	maxTop     = 100
	// maxFailedTop is the most failed rows in one answer.
	maxFailedTop = 1000
)

// scanRoutes serves /api/scans.
//
// caller: whoever starts and watches scans.
func scanRoutes(e *engine.Engine) func(chi.Router) {
	return func(r chi.Router) {
		r.Post("/api/scans", failing(func(w http.ResponseWriter, r *http.Request) error { return startScan(e, w, r) }))
		r.Post("/api/scans/estimate", failing(func(w http.ResponseWriter, r *http.Request) error { return estimateScan(e, w, r) }))
		r.Get("/api/scans/connections", failing(tellScan(func(context.Context, string) (engine.Connections, error) { return e.Connections(), nil })))
		r.Get("/api/scans/connections/{id}/tables", failing(tellScan(e.TableNames)))
		r.Get("/api/scans/connections/{id}/queues", failing(tellScan(e.QueueNames)))
		r.Get("/api/scans", failing(func(w http.ResponseWriter, r *http.Request) error { return listScans(e, w, r) }))
		r.Get("/api/scans/{id}", failing(tellScan(e.Status)))
		r.Get("/api/scans/{id}/timeline", failing(tellScan(e.Timeline)))
		r.Get("/api/scans/{id}/ranges", failing(tellScan(e.Ranges)))
		r.Get("/api/scans/{id}/failed", failing(func(w http.ResponseWriter, r *http.Request) error { return listFailed(e, w, r) }))
		r.Delete("/api/scans/{id}", failing(changeScan(e.Cancel)))
		r.Post("/api/scans/{id}/retry", failing(func(w http.ResponseWriter, r *http.Request) error { return retryScan(e, w, r) }))
	}
}

// tellScan returns a handler that answers with what ask returns for the scan or the connection in the path.
func tellScan[T any](ask func(ctx context.Context, id string) (T, error)) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		if _, err := parameters(r); err != nil {
			return err
		}
		told, err := ask(r.Context(), parameter(r, "id"))
		return answer(w, r, told, err)
	}
}

func listFailed(e *engine.Engine, w http.ResponseWriter, r *http.Request) error {
	given, top, err := readList(r, maxTop, maxFailedTop, "top", "cursor")
	if err != nil {
		return err
	}
	failed, err := e.Failed(r.Context(), parameter(r, "id"), top, given.Get("cursor"))
	linkNext(w, r, failed.Cursor)
	return answer(w, r, failed, err)
}

// changeScan returns a handler that changes the state of the scan in the path.
func changeScan(change func(ctx context.Context, id string) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		if _, err := parameters(r); err != nil {
			return err
		}
		id := parameter(r, "id")
		if err := change(r.Context(), id); err != nil {
			return err
		}
		writeStarted(w, r, id)
		return nil
	}
}

// retryScan retries a scan: the steps that are left, or with the body {"rows":"failed"} its failed rows as well.
func retryScan(e *engine.Engine, w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(r)
	if err != nil {
		return err
	}
	retry := e.Retry
	if len(body) > 0 {
		var asked struct {
			Rows string `json:"rows"`
		}
		if err := input.JSON(body, &asked); err != nil {
			return err
		}
		if asked.Rows != "failed" {
			return problem.Invalidf("rows", "%s is unknown; use failed, or send no body", secret.Name(asked.Rows))
		}
		retry = e.RetryFailed
	}
	return changeScan(retry)(w, r)
}

// writeStarted answers a scan's start, cancellation or retry.
func writeStarted(w http.ResponseWriter, r *http.Request, id string) {
	writeJSON(w, r, http.StatusAccepted, struct {
		ID        string `json:"id"`
		StatusURL string `json:"statusUrl"`
	}{id, statusURL(r, id)})
}

func startScan(e *engine.Engine, w http.ResponseWriter, r *http.Request) error {
	req, err := scanRequest(r)
	if err != nil {
		return err
	}
	id, err := e.Start(r.Context(), req)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/api/scans/"+id)
	writeStarted(w, r, id)
	return nil
}

// scanRequest reads the request for a scan from a body.
func scanRequest(r *http.Request) (engine.Request, error) {
	if _, err := parameters(r); err != nil {
		return engine.Request{}, err
	}
	body, err := readBody(r)
	if err != nil {
		return engine.Request{}, err
	}
	return engine.ParseRequest(body)
}

// estimateScan answers with the rows and the cost of the scan that the request would start.
func estimateScan(e *engine.Engine, w http.ResponseWriter, r *http.Request) error {
	req, err := scanRequest(r)
	if err != nil {
		return err
	}
	report, err := e.Estimate(r.Context(), req)
	return answer(w, r, report, err)
}

func listScans(e *engine.Engine, w http.ResponseWriter, r *http.Request) error {
	given, top, err := readList(r, defaultTop, maxTop, "top", "cursor", "state", "action", "table", "name", "since")
	if err != nil {
		return err
	}
	q := engine.ListQuery{
		Top: top, Cursor: given.Get("cursor"), State: ledger.State(given.Get("state")), Action: given.Get("action"),
		Table: given.Get("table"), Name: given.Get("name"),
	}
	if since := given.Get("since"); since != "" {
		now, err := e.Now(r.Context())
		if err != nil {
			return err
		}
		if q.Since, err = logtail.ParseTime(since, now); err != nil {
			return problem.Invalidf("since", "%v; escape the + of a time zone as %%2B", err)
		}
	}
	list, err := e.List(r.Context(), q)
	linkNext(w, r, list.Cursor)
	return answer(w, r, list, err)
}

// statusURL returns the URL of the scan's status, on the host that the caller has used. The
// Functions host either forwards the caller's Host header, or replaces it by this process's
// address, and puts the caller's into X-Forwarded-Host. In the first case, X-Forwarded-Host
// comes from the caller and does not count.
func statusURL(r *http.Request, id string) string {
	scheme, host := "http", r.Host
	if v := r.Header.Get("X-Forwarded-Proto"); v == "https" {
		scheme = v
	}
	own, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if v := r.Header.Get("X-Forwarded-Host"); v != "" && own != nil && r.Host == own.String() {
		host = v
	}
	return scheme + "://" + host + "/api/scans/" + id
}
