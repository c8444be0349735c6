package app

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Route is a route template: literals and parameters between slashes. {name}
// takes one segment, {name?} at the end one or none, {*name} at the end the rest.
type Route struct {
	text     string
	segments []segment
}

type segment struct {
	kind kind
	name string // of the parameter, or the literal in lower case
}

type kind int

// The kinds of segments, the more specific first.
const (
	literal kind = iota
	parameter
	optional
	rest
)

// ParseRoute reads a route template. Constraints and default values of ASP.NET
// are refused.
func ParseRoute(s string) (Route, error) {
	r := Route{text: strings.Trim(s, "/")}
	if r.text == "" {
		return r, nil
	}
	parts := strings.Split(r.text, "/")
	for i, part := range parts {
		seg, err := parseSegment(part)
		if err == nil && seg.kind >= optional && i < len(parts)-1 {
			err = fmt.Errorf("%s may stand only at the end", part)
		}
		if err != nil {
			return Route{}, fmt.Errorf("route %q: %w", s, err)
		}
		r.segments = append(r.segments, seg)
	}
	return r, nil
}

func parseSegment(s string) (segment, error) {
	name, ok := strings.CutPrefix(s, "{")
	if !ok || !strings.HasSuffix(name, "}") {
		if s == "" || strings.ContainsAny(s, "{}") {
			return segment{}, fmt.Errorf("%q is neither a literal nor a {parameter}", s)
		}
		return segment{kind: literal, name: strings.ToLower(s)}, nil
	}
	name = strings.TrimSuffix(name, "}")
	seg := segment{kind: parameter, name: name}
	if n := strings.TrimLeft(name, "*"); n != name {
		seg = segment{kind: rest, name: n}
	} else if n, ok := strings.CutSuffix(name, "?"); ok {
		seg = segment{kind: optional, name: n}
	}
	if seg.name == "" || strings.ContainsAny(seg.name, ":={}?*") {
		return segment{}, fmt.Errorf("%s: only {name}, {name?} and {*name} are supported", s)
	}
	return seg, nil
}

// String returns the template.
func (r Route) String() string { return r.text }

// Match returns the parameters of an escaped URL path below the route prefix, as
// /scans/7 for scans/{id?}, and whether the path matches. Literals match without
// regard to case.
func (r Route) Match(path string) (map[string]string, bool) {
	var parts []string
	if p := strings.Trim(path, "/"); p != "" {
		parts = strings.Split(p, "/")
	}
	params := map[string]string{}
	for i, seg := range r.segments {
		if i >= len(parts) {
			return params, seg.kind == optional || seg.kind == rest
		}
		text, err := url.PathUnescape(parts[i])
		if err != nil {
			return nil, false
		}
		switch seg.kind {
		case literal:
			if strings.ToLower(text) != seg.name {
				return nil, false
			}
		case rest:
			all, err := url.PathUnescape(strings.Join(parts[i:], "/"))
			params[seg.name] = all
			return params, err == nil
		default:
			params[seg.name] = text
		}
	}
	return params, len(parts) <= len(r.segments)
}

// CompareRoutes orders routes as they are tried: literals before parameters.
func CompareRoutes(a, b Route) int {
	return cmp.Or(
		slices.CompareFunc(a.segments, b.segments, func(a, b segment) int { return cmp.Compare(a.kind, b.kind) }),
		cmp.Compare(a.text, b.text),
	)
}
