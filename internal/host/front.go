package host

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"tablesweep/internal/function"
	"tablesweep/internal/function/app"
	"tablesweep/internal/host/envelope"
	"tablesweep/internal/input/loopback"
)

// Limits of the front. The cloud's load balancer gives up after 230 s. (Microsoft Learn, "Azure Functions scale and hosting", Timeout; "host.json",
// maxRequestBodySize)
const (
	responseLimit = 230 * time.Second
	maxBody       = 100 << 20
)

// Keys are the access keys of the app. The zero value requires none, as in Core
// Tools.
type Keys struct {
	Function string // opens functions of level function
	Master   string // opens everything
}

// NewKeys returns random keys.
func NewKeys() Keys { return Keys{Function: rand.Text(), Master: rand.Text()} }

// allow reports whether a request has the master key or, unless that alone will do, the function key. The header
// wins over the query.
func (k Keys) allow(r *http.Request, masterOnly bool) bool {
	if k == (Keys{}) {
		return true
	}
	got := r.Header.Get("X-Functions-Key")
	if got == "" {
		got = r.URL.Query().Get("code")
	}
	same := func(key string) bool {
		return key != "" && subtle.ConstantTimeCompare([]byte(got), []byte(key)) == 1
	}
	return same(k.Master) || !masterOnly && same(k.Function)
}

// serve starts the HTTP server. It takes no requests after ctx has ended, and answers none
// after work has.
func (h *Host) serve(ctx, work context.Context) {
	s := &http.Server{Handler: h.front(work), ReadHeaderTimeout: 30 * time.Second, ConnState: between, DisableGeneralOptionsHandler: true}
	h.running.Go(func() { _ = s.Serve(kestrel{h.listener}) }) // always ends with ErrServerClosed
	h.busy.Go(func() {
		<-ctx.Done()
		_ = s.Shutdown(work)
		_ = s.Close()
	})
}

// front handles every request. It is no [http.ServeMux], which would clean paths.
func (h *Host) front(ctx context.Context) http.HandlerFunc {
	rt := newRouter(h.app.RoutePrefix, h.functions)
	return func(w http.ResponseWriter, r *http.Request) {
		r.Method = canonicalMethod(r.Method)
		if status := refusal(r); status > 0 {
			w.Header().Set("Connection", "close")
			w.WriteHeader(status)
			return
		}
		r.Header.Del(envelope.HeaderSecret)
		if h.options.Keys == (Keys{}) {
			if why := loopback.Foreign(r); why != "" {
				http.Error(w, why+"; an app without keys takes requests from this machine and its own pages alone: start it with --keys", http.StatusForbidden)
				return
			}
		}
		if name, ok := cutPrefixFold(r.URL.Path, "/admin/functions/"); ok && r.Method == http.MethodPost {
			h.trigger(ctx, name, w, r)
			return
		}
		path, err := decodedPath(r.URL.EscapedPath())
		f, ok := rt.find(r.Method, proxiedPath(path))
		switch {
		case err != nil:
			w.WriteHeader(http.StatusBadRequest)
		case !ok:
			w.WriteHeader(http.StatusNotFound)
		case !f.Anonymous && !h.options.Keys.allow(r, false):
			w.WriteHeader(http.StatusUnauthorized)
		default:
			h.request(ctx, f, path, w, r)
		}
	}
}

// router finds the function for a request.
type router struct {
	prefix    string   // with slashes around it
	functions []hosted // in the order in which they are tried
}

func newRouter(prefix string, functions []hosted) router {
	rt := router{prefix: "/"}
	if prefix != "" {
		rt.prefix = "/" + prefix + "/"
	}
	for _, f := range functions {
		if f.Trigger == function.HTTP {
			rt.functions = append(rt.functions, f)
		}
	}
	slices.SortStableFunc(rt.functions, func(a, b hosted) int { return app.CompareRoutes(a.route, b.route) })
	return rt
}

// find returns the function of a request. It does not find a path that matches only
// another method: the real host doesn't answer 405.
func (rt router) find(method, escapedPath string) (hosted, bool) {
	path, ok := cutPrefixFold(escapedPath, rt.prefix)
	if !ok {
		return hosted{}, false
	}
	for _, f := range rt.functions {
		if f.route.Match(path) && (len(f.Methods) == 0 || slices.Contains(f.Methods, method)) {
			return f, true
		}
	}
	return hosted{}, false
}

func cutPrefixFold(s, prefix string) (string, bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
}

// request runs a function for an HTTP request with a decoded path.
func (h *Host) request(ctx context.Context, f hosted, path string, w http.ResponseWriter, r *http.Request) {
	v := h.pick().newInvocation(f)
	r.Body = http.MaxBytesReader(w, newPacedBody(w, r), maxBody)
	if r.ContentLength > maxBody || beyondASCII(r.Header) {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	v.proxy(ctx, w, r, path)
}

// trigger runs a queue or timer function by hand: POST /admin/functions/NAME
// {"input":"..."}. (Microsoft Learn, "Manually run a non HTTP-triggered function")
func (h *Host) trigger(ctx context.Context, name string, w http.ResponseWriter, r *http.Request) {
	if !h.options.Keys.allow(r, true) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	i := slices.IndexFunc(h.functions, func(f hosted) bool { return strings.EqualFold(f.Name, name) })
	if i < 0 {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	var body struct{ Input string }
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&body); err != nil {
		http.Error(w, fmt.Sprintf(`the body must be {"input":"..."}: %v`, err), http.StatusBadRequest)
		return
	}
	f := h.functions[i]
	v := h.pick().newInvocation(f)
	var document []byte
	switch {
	case f.Trigger == function.Queue:
		// QueueTriggerBinding makes this of a text without a message around it.
		never := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
		document = envelope.Queue(v.envelope(), envelope.Message{Text: body.Input, Inserted: time.Now(), Expires: never, NextVisible: never})
	case f.Trigger == function.Timer:
		document = envelope.Timer(v.envelope(), f.schedule.Interval(), nil, false)
	default:
		http.Error(w, "an HTTP function is called by its route", http.StatusBadRequest)
		return
	}
	go func() { _, _ = v.invoke(ctx, document) }() // logs its failure; ends with the invocation
	w.WriteHeader(http.StatusAccepted)
}
