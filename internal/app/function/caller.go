package function

import (
	"cmp"
	"crypto/subtle"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"tablesweep/internal/app/envelope"
	"tablesweep/internal/input/loopback"
	"tablesweep/internal/problem"
)

// Host describes the Functions host that started the handler.
type Host struct {
	// Secret is the secret that the host adds to every request. It is "" for the real host, which adds none.
	Secret string
	// Worker is the id of this process. Worker is set only if the host has a secret.
	Worker string
	// Development is true if the app runs on a developer's machine. There, web pages in the developer's browser can
	// send requests to any port, and so to the app.
	Development bool
}

// onlyFromHost returns a handler that calls `next` if the Functions host has made the request or passed it on. The handler
// refuses other requests.
func (h Host) onlyFromHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, foreign := foreignName(r)
		switch {
		case h.Secret != "" && subtle.ConstantTimeCompare([]byte(r.Header.Get(envelope.HeaderSecret)), []byte(h.Secret)) == 0,
			h.Secret == "" && pastHost(r),
			isCall(r) && !hostsOwn(r):
			notFound(w, r)
		case h.Secret == "" && h.Development && foreign:
			writeProblem(w, r, problem.NotFoundf("Host", "%q is not a name of this machine; while AZURE_FUNCTIONS_ENVIRONMENT is Development, the app answers only requests to localhost or a loopback address", name))
		case withoutPreflight(r) && ofOtherSite(r):
			writeProblem(w, r, problem.Forbiddenf("Content-Type", "a web page of another site has sent this request, and browsers do not check CORS for the request's content type; "+
				"send application/json, and allow the site in the host's CORS settings"))
		default:
			r.Header.Del(envelope.HeaderSecret)
			if h.Secret != "" && r.URL.Path == "/" {
				w.Header().Set(envelope.HeaderWorker, h.Worker)
			}
			next.ServeHTTP(w, r)
		}
	})
}

// foreignName returns the request's host name if it is not a name of this machine. If a web page's host name resolves to this
// machine, the page can send requests here under that name (DNS rebinding). A Functions host puts that name into
// X-Forwarded-Host.
func foreignName(r *http.Request) (name string, foreign bool) {
	names := append([]string{r.Host}, r.Header.Values("X-Forwarded-Host")...)
	if i := slices.IndexFunc(names, func(name string) bool { return !loopback.Is(name) }); i >= 0 {
		return names[i], true
	}
	return "", false
}

// pastHost reports whether a browser has sent the request directly to the handler's port. On a developer's machine, any web page can send simple requests
// to that port. A web page cannot add the headers that a host adds: an invocation id or X-Forwarded-Host. (DefaultHttpProxyService of
// azure-functions-host; YARP)
func pastHost(r *http.Request) bool {
	return hasHeader(r, "Origin", "Sec-Fetch-Site") && !hasHeader(r, envelope.HeaderInvocation, "X-Ms-Invocation-Id", "X-Forwarded-Host")
}

// withoutPreflight reports whether the request has no Content-Type, or a Content-Type of HTML forms. A browser sends such
// a request without a preflight, from any web page. (WHATWG Fetch, "CORS-safelisted request-header")
func withoutPreflight(r *http.Request) bool {
	return slices.Contains([]string{"", "application/x-www-form-urlencoded", "multipart/form-data", "text/plain"}, mediaType(r))
}

// ofOtherSite reports whether a page of another site has made a browser send the request. For GET, HEAD and
// preflights, the result is false. Core Tools require no key, so without this check, any page that the developer
// opens could start scans.
func ofOtherSite(r *http.Request) bool {
	as := *r
	as.Host = cmp.Or(r.Header.Get("X-Forwarded-Host"), r.Host)
	return http.NewCrossOriginProtection().Check(&as) != nil
}

// isCall reports whether a request is for a queue or timer function. Requests for other functions have paths below /api.
func isCall(r *http.Request) bool {
	return r.URL.Path != "/" && !strings.HasPrefix(strings.ToLower(r.URL.Path), "/api/")
}

// hostsOwn reports whether a request may come from the host itself. A forwarding host resolves a caller's /api/log/..%5C..%5CMaintain to /Maintain, and
// passes on the caller's headers, including Host and a key. The host's own calls have no key, and their Host is this server's address.
// (DefaultHttpWorkerService and HttpRequestExtensions of azure-functions-host)
func hostsOwn(r *http.Request) bool {
	address, served := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return r.Method == http.MethodPost && r.URL.RawQuery == "" && (!served || r.Host == address.String()) &&
		!hasHeader(r, "X-Functions-Key", "Accept", "X-Forwarded-For", "X-Forwarded-Host")
}

func hasHeader(r *http.Request, names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return len(r.Header.Values(name)) > 0 })
}

// isForwarded reports whether a host has forwarded a caller's request instead of proxying it: a forwarding host adds its name
// to the User-Agent. (HttpRequestExtensions of azure-functions-host)
func isForwarded(r *http.Request) bool {
	return strings.HasPrefix(strings.ToLower(r.URL.Path), "/api/") && strings.Contains(strings.Join(r.Header.Values("User-Agent"), " "), "Azure-Functions-Host/")
}

func errNotProxied() error {
	return problem.NotProxiedf("", "the Functions host changes requests before it passes them on: set customHandler.enableProxyingHttpRequest to true in host.json; "+
		"if it is already true, update the host (Core Tools, or the image of a container)")
}

// onlyProxied refuses forwarded requests, because the host has changed their bodies, paths and parameters.
func onlyProxied(next http.Handler) http.Handler {
	return withProblems(func(w http.ResponseWriter, r *http.Request) error {
		if isForwarded(r) {
			return errNotProxied()
		}
		next.ServeHTTP(w, r)
		return nil
	})
}

// invocationID returns the host's id for the request, or "".
func invocationID(r *http.Request) string {
	id := r.Header.Get(envelope.HeaderInvocation)
	if len(id) != len(uuid.Nil.String()) || uuid.Validate(id) != nil {
		return ""
	}
	return id
}
