package host

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"tablesweep/internal/input/loopback"
)

// NewKey returns a random key.
func NewKey() string { return rand.Text() }

// serve starts the HTTP server. The server accepts no requests after ctx ends, and sends no answers after the work context
// ends.
func (h *Host) serve(ctx, work context.Context) {
	s := &http.Server{Handler: http.HandlerFunc(h.front), ReadHeaderTimeout: 30 * time.Second}
	h.running.Go(func() { _ = s.Serve(h.listener) }) // always ends with ErrServerClosed
	h.busy.Go(func() {
		<-ctx.Done()
		_ = s.Shutdown(work)
		_ = s.Close()
	})
}

// front handles every request, and passes those below /api to the handler.
func (h *Host) front(w http.ResponseWriter, r *http.Request) {
	const prefix = "/api/"
	path := strings.ToLower(r.URL.EscapedPath())
	if h.options.Key == "" {
		if why := loopback.Foreign(r); why != "" {
			http.Error(w, why+"; an app without keys accepts requests only from this machine and its own pages; start the app with --keys", http.StatusForbidden)
			return
		}
	}
	switch {
	case !strings.HasPrefix(path, prefix):
		http.NotFound(w, r)
	case !h.anonymous(strings.TrimPrefix(path, prefix)) && !h.allow(r):
		w.WriteHeader(http.StatusUnauthorized)
	default:
		h.pick().proxy(w, r)
	}
}

// anonymous reports whether a path below /api belongs to a function that needs no key. Only the console needs no key.
func (h *Host) anonymous(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return slices.ContainsFunc(h.functions, func(f hosted) bool {
		route, _, _ := strings.Cut(f.Route, "/")
		return f.Anonymous && first == route
	})
}

// allow reports whether a request has the required key. A key in the header takes precedence over a key in the query.
func (h *Host) allow(r *http.Request) bool {
	if h.options.Key == "" {
		return true
	}
	got := r.Header.Get("X-Functions-Key")
	if got == "" {
		got = r.URL.Query().Get("code")
	}
	return subtle.ConstantTimeCompare([]byte(got), []byte(h.options.Key)) == 1
}

// proxy streams a request to the handler, and the answer to the client. While the handler is being restarted, proxy waits.
func (in *instance) proxy(w http.ResponseWriter, r *http.Request) {
	p, err := in.ready(r.Context())
	if err != nil {
		return // the client has disconnected
	}
	id := uuid.NewString()
	proxy := &httputil.ReverseProxy{
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.SetURL(&url.URL{Scheme: "http", Host: p.address}) // also sets the Host header
			pr.Out.URL.RawQuery = pr.In.URL.RawQuery
			pr.SetXForwarded()
			p.mark(pr.Out, id)
		},
		Transport:     in.host.client.Transport,
		FlushInterval: -1,
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() == nil {
				in.log.Error().Err(err).Str("invocation", id).Str("path", r.URL.Path).Msg("the handler does not answer")
			}
			w.WriteHeader(http.StatusInternalServerError)
		},
	}
	proxy.ServeHTTP(w, r)
}
