package app_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/function/app"
)

func TestRouteMatch(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, route, path string
		want              bool
	}{
		{"literal", "scans", "/scans", true},
		{"literal in another case", "scans", "/SCANS/", true},
		{"another literal", "scans", "/scan", false},
		{"too long", "scans", "/scans/7", false},
		{"too short", "scans/{id}", "/scans", false},
		{"parameter", "scans/{id}", "/scans/7", true},
		{"escaped parameter", "scans/{id}", "/scans/a%2Fb%20c", true},
		{"bad escape", "scans/{id}", "/scans/%zz", false},
		{"optional given", "scans/{id?}", "/scans/7", true},
		{"optional absent", "scans/{id?}", "/scans", true},
		{"optional and more", "scans/{id?}", "/scans/7/8", false},
		{"rest", "files/{*path}", "/files/a/b%20c", true},
		{"rest of nothing", "files/{*path}", "/files", true},
		{"middle", "a/{b}/c", "/a/x/c", true},
		{"pattern", "files/{file:regex(^[a-z]+[.]js$)}", "/files/App.JS", true},
		{"pattern, another value", "files/{file:regex(^[a-z]+[.]js$)}", "/files/app.css", false},
		{"pattern, backslash", "files/{file:regex(^[a-z]+[.]js$)}", "/files/..%5Capp.js", false},
		{"pattern, slash", "files/{file:regex(^[a-z]+[.]js$)}", "/files/..%2Fapp.js", false},
		{"pattern, line feed", "files/{file:regex(^[a-z]+[.]js$)}", "/files/app.js%0A", true},
		{"pattern, two lines", "files/{file:regex(^[a-z]+[.]js$)}", "/files/app.js%0A..", false},
		{"pattern of an optional one", "files/{file:regex(^a$)?}", "/files/a", true},
		{"pattern of an optional one, absent", "files/{file:regex(^a$)?}", "/files/", true},
		{"pattern of an optional one, another value", "files/{file:regex(^a$)?}", "/files/b", false},
		{"pattern of the rest", "files/{*path:regex(^a.a$)}", "/files/a/a", true},
		{"pattern of the rest, another value", "files/{*path:regex(^a$)}", "/files/a/b", false},
		{"pattern of the rest of nothing", "files/{*path:regex(^$)}", "/files", false},
		{"braces", "{n:regex(^a{{2}}$)}", "/aa", true},
		{"pattern, a letter that folds to another", "files/{file:regex(^[a-z]+[.]js$)}", "/files/a%C5%BF.js", false},
		{"empty segment first", "files/{*path}", "//files", false},
		{"empty segment", "files/{id}/x", "/files//x", false},
		{"empty segment last", "files/{*path}", "/files//", false},
		{"empty segment of an optional one", "files/{id?}", "/files//", false},
		{"empty segment in the rest", "files/{*path}", "/files/a//b", true},
		{"empty segment at the rest", "files/{*path}", "/files//a", false},
		{"root", "", "/", true},
		{"root and more", "", "/x", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r, err := app.ParseRoute(test.route)
			if err != nil {
				t.Fatal(err)
			}
			if got := r.Match(strings.TrimPrefix(test.path, "/")); got != test.want {
				t.Errorf("%s.Match(%s) = %v, want %v", test.route, test.path, got, test.want)
			}
		})
	}
}

func TestRouteRefuses(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"a//b", "{id?}/x", "{*rest}/x", "{id:int}", "{id=5}", "{}", "{a", "a}", "x{id}",
		"{id:regex(a}", "{id:regex(a{2})}", "{id:regex(a:b)}", "{id:regex(()}", "{:regex(a)}"} {
		if r, err := app.ParseRoute(s); err == nil {
			t.Errorf("ParseRoute(%q) = %v", s, r)
		}
	}
}

func TestRouteOrder(t *testing.T) {
	t.Parallel()
	var routes []app.Route
	for _, s := range []string{"{*rest}", "scans/{id?}", "{any}", "scans/{id}", "scans/top", "scans"} {
		r, err := app.ParseRoute(s)
		if err != nil {
			t.Fatal(err)
		}
		routes = append(routes, r)
	}
	slices.SortFunc(routes, app.CompareRoutes)
	var got []string
	for _, r := range routes {
		got = append(got, r.String())
	}
	want := []string{"scans", "scans/top", "scans/{id}", "scans/{id?}", "{any}", "{*rest}"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}
