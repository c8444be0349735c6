package function

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/go-chi/chi/v5"
	"github.com/rs/zerolog"

	"tablesweep/internal/engine"
	"tablesweep/internal/problem"
)

const (
	defaultTop = 20
	maxTop     = 100
)

// scansHandler serves /api/scans.
//
// caller: whoever starts and watches scans.
func scansHandler(e *engine.Engine) http.Handler {
	r := chi.NewRouter()
	r.NotFound(notFound)
	r.MethodNotAllowed(notFound)
	r.Post("/", failing(func(w http.ResponseWriter, r *http.Request) error { return startScan(e, w, r) }))
	r.Get("/", failing(func(w http.ResponseWriter, r *http.Request) error { return listScans(e, w, r) }))
	r.Get("/{id}", failing(func(w http.ResponseWriter, r *http.Request) error {
		s, err := e.Status(r.Context(), chi.URLParam(r, "id"))
		if err != nil {
			return err
		}
		writeJSON(w, r, http.StatusOK, "application/json", s)
		return nil
	}))
	r.Delete("/{id}", failing(changeScan(e.Cancel)))
	r.Post("/{id}/retry", failing(changeScan(e.Retry)))
	return r
}

// changeScan handles a request that changes the state of the scan in its path.
func changeScan(change func(ctx context.Context, id string) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		id := chi.URLParam(r, "id")
		if err := change(r.Context(), id); err != nil {
			return err
		}
		writeJSON(w, r, http.StatusAccepted, "application/json", started{ID: id, StatusURL: statusURL(r, id)})
		return nil
	}
}

// started is the answer to a scan's start, cancellation or retry.
type started struct {
	ID        string `json:"id"`
	StatusURL string `json:"statusUrl"`
}

func startScan(e *engine.Engine, w http.ResponseWriter, r *http.Request) error {
	body, err := readBody(r)
	if err != nil {
		return err
	}
	req, err := engine.ParseRequest(bytes.NewReader(body))
	if err != nil {
		return err
	}
	id, err := e.Start(r.Context(), req)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/api/scans/"+id)
	writeJSON(w, r, http.StatusAccepted, "application/json", started{ID: id, StatusURL: statusURL(r, id)})
	return nil
}

func listScans(e *engine.Engine, w http.ResponseWriter, r *http.Request) error {
	top := defaultTop
	if v := r.URL.Query().Get("top"); v != "" {
		var err error
		if top, err = strconv.Atoi(v); err != nil || top < 1 || top > maxTop {
			return problem.Invalidf("top", "must be a number from 1 to %d", maxTop)
		}
	}
	list, err := e.List(r.Context(), top)
	if err != nil {
		return err
	}
	writeJSON(w, r, http.StatusOK, "application/json", map[string]any{"scans": list})
	return nil
}

// statusURL returns the address at which the caller can ask for the scan's
// status: where it sent this request, as the host's forwarding shows it.
func statusURL(r *http.Request, id string) string {
	scheme, host := "http", r.Host
	if v := r.Header.Get("X-Forwarded-Proto"); v != "" {
		scheme = v
	}
	if v := r.Header.Get("X-Forwarded-Host"); v != "" {
		host = v
	}
	return scheme + "://" + host + "/api/scans/" + id
}

// failing makes a handler of a function that may fail.
func failing(fn func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := fn(w, r); err != nil {
			writeProblem(w, r, err)
		}
	}
}

// writeProblem answers with the error as RFC 9457 has it.
func writeProblem(w http.ResponseWriter, r *http.Request, err error) {
	p, status := problem.Of(err), problem.Status(err)
	detail := p.Detail
	if status >= http.StatusInternalServerError {
		zerolog.Ctx(r.Context()).Error().Err(err).Str("path", r.URL.Path).Msg("request failed")
	} else if p.Err != nil {
		detail = p.Detail + ": " + p.Err.Error()
	}
	writeJSON(w, r, status, "application/problem+json", struct {
		Title  string `json:"title"`
		Status int    `json:"status"`
		Field  string `json:"field,omitempty"`
		Detail string `json:"detail"`
	}{http.StatusText(status), status, p.Field, detail})
}

func writeJSON(w http.ResponseWriter, r *http.Request, status int, contentType string, v any) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("function: internal error: " + err.Error())
	}
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	if _, err := w.Write(b.Bytes()); err != nil {
		zerolog.Ctx(r.Context()).Debug().Err(err).Msg("answer not taken")
	}
}
