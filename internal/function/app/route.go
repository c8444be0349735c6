package app

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Route is a route template: literals and parameters between slashes. {name}
// takes one segment, {name?} at the end one or none, {*name} at the end the rest.
// {name:regex(PATTERN)} takes text that the pattern matches. The other forms may have a pattern as well.
type Route struct {
	text     string
	segments []segment
}

type segment struct {
	kind    kind
	name    string         // of the parameter, or the literal in lower case
	pattern *regexp.Regexp // that a parameter's value must match, or nil
}

type kind int

// The kinds of segments, the more specific first.
const (
	literal kind = iota
	parameter
	optional
	rest
)

// ParseRoute reads a route template. It refuses the default values of ASP.NET, and constraints other
// than regex.
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
	seg.name, name, ok = strings.Cut(seg.name, ":")
	if seg.name == "" || strings.ContainsAny(seg.name, "={}?*") {
		return segment{}, fmt.Errorf("%s: only {name}, {name?} and {*name} are supported", s)
	}
	if !ok {
		return seg, nil
	}
	var err error
	if seg.pattern, err = parseConstraint(name); err != nil {
		return segment{}, fmt.Errorf("%s: %w", s, err)
	}
	return seg, nil
}

// parseConstraint reads regex(PATTERN). Braces of the pattern are doubled, as in every
// template; : and = would end a constraint in some places. Letters match in any case.
// (RouteParameterParser and RegexRouteConstraint of ASP.NET Core)
func parseConstraint(s string) (*regexp.Regexp, error) {
	pattern, isRegex := strings.CutPrefix(s, "regex(")
	pattern, closed := strings.CutSuffix(pattern, ")")
	if !isRegex || !closed || strings.ContainsAny(pattern, ":=") {
		return nil, fmt.Errorf("constraint %q: only regex(PATTERN) is supported, without : and = in it", s)
	}
	plain := strings.NewReplacer("{{", "{", "}}", "}")
	if strings.ContainsAny(strings.NewReplacer("{{", "", "}}", "").Replace(pattern), "{}") {
		return nil, fmt.Errorf("constraint %q: a brace in a pattern must be doubled", s)
	}
	return regexp.Compile("(?i)" + plain.Replace(pattern))
}

// takes reports whether a parameter may have the value. In .NET, $ also matches before a
// line feed at the end, and ſ is no S in another case.
func (s segment) takes(value string) bool {
	value = strings.ReplaceAll(value, "ſ", "\uFFFD")
	return s.pattern == nil || s.pattern.MatchString(value) || s.pattern.MatchString(strings.TrimSuffix(value, "\n"))
}

// String returns the template.
func (r Route) String() string { return r.text }

// Match reports whether an escaped URL path below the route prefix, as
// scans/7 for scans/{id?}, matches. Literals match without
// regard to case. Only behind the first segment of a rest may segments be empty; one slash at the end does not
// count. (TemplateMatcher of ASP.NET Core)
func (r Route) Match(path string) bool {
	var parts []string
	if path != "" {
		parts = strings.Split(strings.TrimSuffix(path, "/"), "/")
	}
	for i, seg := range r.segments {
		if i >= len(parts) {
			return seg.kind == optional || seg.kind == rest && seg.pattern == nil
		}
		text, err := url.PathUnescape(parts[i])
		if err != nil || text == "" {
			return false
		}
		switch seg.kind {
		case literal:
			if strings.ToLower(text) != seg.name {
				return false
			}
		case rest:
			all, err := url.PathUnescape(strings.Join(parts[i:], "/"))
			return err == nil && seg.takes(all)
		default:
			if !seg.takes(text) {
				return false
			}
		}
	}
	return len(parts) <= len(r.segments)
}

// CompareRoutes orders routes for matching: literals before parameters.
func CompareRoutes(a, b Route) int {
	return cmp.Or(
		slices.CompareFunc(a.segments, b.segments, func(a, b segment) int { return cmp.Compare(a.kind, b.kind) }),
		cmp.Compare(a.text, b.text),
	)
}
