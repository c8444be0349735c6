package function

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"

	"tablesweep/internal/problem"
)

// routes finds the route of a path. Its fixed parts match in any case.
type routes []route

// route is one pattern of a router.
type route struct {
	segments []string // fixed parts before parameters
	methods  []string
}

// routesOf lists the patterns of a router.
func routesOf(router chi.Routes) routes {
	methods := map[string][]string{}
	// The callback never fails.
	_ = chi.Walk(router, func(method, pattern string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		methods[pattern] = append(methods[pattern], method)
		return nil
	})
	var all routes
	for pattern := range methods {
		all = append(all, route{strings.Split(pattern, "/"), methods[pattern]})
	}
	slices.SortFunc(all, func(a, b route) int {
		byLooseness := slices.CompareFunc(a.segments, b.segments, func(a, b string) int { return cmp.Compare(looseness(a), looseness(b)) })
		return cmp.Or(byLooseness, slices.Compare(a.segments, b.segments))
	})
	return all
}

// looseness is 0 for a fixed segment, 1 for a parameter, 2 for the rest of the path.
func looseness(segment string) int {
	switch {
	case segment == "*":
		return 2
	case strings.HasPrefix(segment, "{"):
		return 1
	}
	return 0
}

// canonical returns an escaped path in the form of the first pattern that it matches: with the
// pattern's case in fixed parts, and without a trailing slash. Parameters keep their case. The
// Functions host matches routes in any case and with a trailing slash, and forwards the
// path as it was sent. (ASP.NET Core routing)
//
// If the pattern has no parameters, own has its methods. Other methods must not match
// patterns with a parameter there.
func (all routes) canonical(path string) (as string, own []string) {
	segments := strings.Split(strings.TrimSuffix(path, "/"), "/")
next:
	for _, r := range all {
		pattern := r.segments
		rest := pattern[len(pattern)-1] == "*"
		if len(segments) < len(pattern) || len(segments) > len(pattern) && !rest {
			continue
		}
		fixed, loose := slices.Clone(segments), 0
		for i, part := range pattern {
			if looseness(part) > 0 {
				loose++
				continue
			}
			if !strings.EqualFold(part, segments[i]) {
				continue next
			}
			fixed[i] = part
		}
		if loose == 0 {
			own = r.methods
		}
		return strings.Join(fixed, "/"), own
	}
	return cmp.Or(strings.Join(segments, "/"), "/"), nil
}

// parameter returns a part of the path, unescaped.
func parameter(r *http.Request, name string) string {
	escaped := chi.URLParam(r, name)
	if v, err := url.PathUnescape(escaped); err == nil {
		return v
	}
	return escaped // never: the server refuses such a path
}

// inAnyCase routes by the canonical path. other answers if the path lacks the method.
func inAnyCase(all *routes, other http.HandlerFunc) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			path, own := all.canonical(r.URL.EscapedPath())
			chi.RouteContext(r.Context()).RoutePath = path
			method := r.Method
			if method == http.MethodHead {
				method = http.MethodGet
			}
			if own != nil && !slices.Contains(own, method) {
				other(w, r)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// otherMethod answers a method that the route lacks: 405, or 204 for OPTIONS.
func otherMethod(router chi.Routes, all *routes) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		path, own := all.canonical(r.URL.EscapedPath())
		var allowed []string
		for _, m := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
			if slices.Contains(own, m) || own == nil && router.Match(chi.NewRouteContext(), m, path) {
				allowed = append(allowed, m)
			}
		}
		if len(allowed) == 0 {
			notFound(w, r)
			return
		}
		if allowed[0] == "GET" {
			allowed = append(allowed, "HEAD")
		}
		allow := strings.Join(append(allowed, "OPTIONS"), ", ")
		w.Header().Set("Allow", allow)
		if r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		writeProblem(w, r, problem.WrongMethodf("", "%s does not take %s; allowed: %s", r.URL.Path, r.Method, allow))
	}
}
