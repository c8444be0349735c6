package function

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-chi/chi/v5"

	"tablesweep/internal/problem"
)

// call describes all HTTP calls with the same method and path, and contains their handler.
type call struct {
	method, path string // the path is relative to /api
	needs        memoryNeed
	behind       func(*http.Request) error // waits for the call's own gate; nil if the call has none
	serve        func(http.ResponseWriter, *http.Request) error
}

// routes contains the handlers of each path, by method. Paths are in lower case, except their parameters.
type routes map[string]map[string]http.Handler

func (all routes) add(method, pattern string, h http.Handler) {
	if all[pattern] == nil {
		all[pattern] = map[string]http.Handler{}
	}
	all[pattern][method] = h
}

// methods lists the methods that a route may have. The router treats any other method as TRACE, and no route accepts TRACE.
var methods = []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"}

// handler returns the router of all routes. When the Functions host matches a path, it ignores the path's case and trailing slash, but it proxies the
// path unchanged (ASP.NET Core routing). So the router matches the path in lower case, without the slash.
func (all routes) handler() http.Handler {
	router := chi.NewRouter()
	router.Use(inLowerCase)
	router.NotFound(notFound)
	for pattern, handlers := range all {
		if get := handlers[http.MethodGet]; get != nil {
			handlers[http.MethodHead] = get
		}
		other := otherMethod(handlers)
		for _, method := range append(methods, http.MethodTrace) {
			h := handlers[method]
			if h == nil { // without a handler, a request with this method could match another pattern, which has a parameter instead of a fixed part
				h = other
			}
			router.Method(method, pattern, withParameters(h))
		}
	}
	return router
}

// inLowerCase gives the router the path in lower case, escaped, and without a trailing slash.
func inLowerCase(next http.Handler) http.Handler {
	return withProblems(func(w http.ResponseWriter, r *http.Request) error {
		if !utf8.ValidString(r.URL.Path) { // [input.Query] and readBody make the same check
			return problem.Invalidf("", "the path is not valid UTF-8; encode it in UTF-8 with %%-escapes, such as %%C3%%BC for ü")
		}
		route := chi.RouteContext(r.Context())
		route.RoutePath = cmp.Or(strings.ToLower(strings.TrimSuffix(r.URL.EscapedPath(), "/")), "/")
		if !slices.Contains(methods, r.Method) {
			route.RouteMethod = http.MethodTrace
		}
		next.ServeHTTP(w, r)
		return nil
	})
}

// withParameters sets the path's parameters. They are unescaped, and keep the caller's upper and lower case.
func withParameters(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Pattern = chi.RouteContext(r.Context()).RoutePattern()
		sent := strings.Split(strings.TrimSuffix(r.URL.EscapedPath(), "/"), "/")
		for i, part := range strings.Split(r.Pattern, "/") {
			switch {
			case part == "*":
				setParameter(r, part, strings.Join(sent[i:], "/"))
			case strings.HasPrefix(part, "{"):
				name, _, _ := strings.Cut(strings.Trim(part, "{}"), ":")
				setParameter(r, name, sent[i])
			}
		}
		next.ServeHTTP(w, r)
	})
}

func setParameter(r *http.Request, name, escaped string) {
	value, _ := url.PathUnescape(escaped) // never fails: the server refuses such paths
	r.SetPathValue(name, value)
}

// otherMethod answers a method that a route does not have: 405, or 204 for OPTIONS.
func otherMethod(handlers map[string]http.Handler) http.Handler {
	allowed := slices.DeleteFunc(slices.Clone(methods), func(m string) bool { return handlers[m] == nil && m != http.MethodOptions })
	allow := strings.Join(allowed, ", ")
	return withProblems(func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Allow", allow)
		if r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusNoContent)
			return nil
		}
		return problem.WrongMethodf("", "%s does not accept %s; allowed: %s", r.URL.Path, r.Method, allow)
	})
}
