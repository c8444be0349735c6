package function

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"tablesweep/internal/problem"
)

// call is a method and a path of an HTTP function, and what answers it.
type call struct {
	method, path string // the path is one below /api
	serve        func(http.ResponseWriter, *http.Request) error
}

// routes are the paths of the app. The first one that fits counts. Their texts match in any case, and a path may have
// a slash at its end: the Functions host matches routes so, and forwards the path as it was sent. (ASP.NET Core routing)
type routes []route

// route is a path, with a handler for each method that it has.
type route struct {
	pattern string
	parts   []part
	methods map[string]http.Handler
}

// part is one between two slashes of a pattern: a text, {NAME} or {NAME:FORM} for a parameter, or * for all that is left.
type part struct {
	text, name string         // one of the two
	form       *regexp.Regexp // of a parameter's value; nil for any
}

// add adds a method to a route, and the route if it is new.
func (all *routes) add(method, pattern string, h http.Handler) {
	i := slices.IndexFunc(*all, func(r route) bool { return r.pattern == pattern })
	if i < 0 {
		i = len(*all)
		*all = append(*all, route{pattern, partsOf(pattern), map[string]http.Handler{}})
	}
	(*all)[i].methods[method] = h
}

func partsOf(pattern string) (parts []part) {
	for text := range strings.SplitSeq(strings.TrimSuffix(pattern, "/"), "/") {
		p := part{text: text}
		if text == "*" {
			p = part{name: text}
		} else if inner, ok := strings.CutPrefix(text, "{"); ok {
			name, form, given := strings.Cut(strings.TrimSuffix(inner, "}"), ":")
			if p = (part{name: name}); given {
				p.form = regexp.MustCompile("^" + form + "$")
			}
		}
		parts = append(parts, p)
	}
	return parts
}

// fits reports whether the route has the path of these escaped segments, and returns the parameters.
func (at route) fits(segments []string) (parameters map[string]string, ok bool) {
	parameters = map[string]string{}
	for i, p := range at.parts {
		switch {
		case i == len(segments), p.name == "" && !strings.EqualFold(p.text, segments[i]):
			return nil, false
		case p.form != nil && !p.form.MatchString(segments[i]):
			return nil, false
		case p.name == "*":
			parameters[p.name] = strings.Join(segments[i:], "/")
			return parameters, true
		case p.name != "":
			parameters[p.name] = segments[i]
		}
	}
	return parameters, len(segments) == len(at.parts)
}

// ServeHTTP implements [http.Handler]. HEAD is answered as GET.
func (all routes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !utf8.ValidString(r.URL.Path) { // as [input.Query] and readBody do with the rest that callers send
		writeProblem(w, r, problem.Invalidf("", "the path is not valid UTF-8; escape the bytes of UTF-8"))
		return
	}
	segments := strings.Split(strings.TrimSuffix(r.URL.EscapedPath(), "/"), "/")
	for _, at := range all {
		parameters, ok := at.fits(segments)
		if !ok {
			continue
		}
		r.Pattern = at.pattern
		for name, escaped := range parameters {
			value, _ := url.PathUnescape(escaped) // the server refuses paths in which that fails
			r.SetPathValue(name, value)
		}
		method := r.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		if h := at.methods[method]; h != nil {
			h.ServeHTTP(w, r)
		} else {
			at.otherMethod(w, r)
		}
		return
	}
	notFound(w, r)
}

// otherMethod answers a method that the route lacks: 405, or 204 for OPTIONS.
func (at route) otherMethod(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, m := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		if at.methods[m] != nil {
			allowed = append(allowed, m)
		}
	}
	if at.methods[http.MethodGet] != nil {
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
