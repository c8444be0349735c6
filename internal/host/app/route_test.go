package app_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/host/app"
)

func TestRouteMatch(t *testing.T) {
	t.Parallel()
	type params = map[string]string
	tests := []struct {
		name, route, path string
		want              params // nil: no match
	}{
		{"literal", "scans", "/scans", params{}},
		{"literal in another case", "scans", "/SCANS/", params{}},
		{"another literal", "scans", "/scan", nil},
		{"too long", "scans", "/scans/7", nil},
		{"too short", "scans/{id}", "/scans", nil},
		{"parameter", "scans/{id}", "/scans/7", params{"id": "7"}},
		{"escaped parameter", "scans/{id}", "/scans/a%2Fb%20c", params{"id": "a/b c"}},
		{"bad escape", "scans/{id}", "/scans/%zz", nil},
		{"optional given", "scans/{id?}", "/scans/7", params{"id": "7"}},
		{"optional absent", "scans/{id?}", "/scans", params{}},
		{"optional and more", "scans/{id?}", "/scans/7/8", nil},
		{"rest", "files/{*path}", "/files/a/b%20c", params{"path": "a/b c"}},
		{"rest of nothing", "files/{*path}", "/files", params{}},
		{"middle", "a/{b}/c", "/a/x/c", params{"b": "x"}},
		{"pattern", "files/{file:regex(^[a-z]+[.]js$)}", "/files/App.JS", params{"file": "App.JS"}},
		{"pattern, another value", "files/{file:regex(^[a-z]+[.]js$)}", "/files/app.css", nil},
		{"pattern, backslash", "files/{file:regex(^[a-z]+[.]js$)}", "/files/..%5Capp.js", nil},
		{"pattern, slash", "files/{file:regex(^[a-z]+[.]js$)}", "/files/..%2Fapp.js", nil},
		{"pattern, line feed", "files/{file:regex(^[a-z]+[.]js$)}", "/files/app.js%0A", params{"file": "app.js\n"}},
		{"pattern, two lines", "files/{file:regex(^[a-z]+[.]js$)}", "/files/app.js%0A..", nil},
		{"pattern of an optional one", "files/{file:regex(^a$)?}", "/files/a", params{"file": "a"}},
		{"pattern of an optional one, absent", "files/{file:regex(^a$)?}", "/files/", params{}},
		{"pattern of an optional one, another value", "files/{file:regex(^a$)?}", "/files/b", nil},
		{"pattern of the rest", "files/{*path:regex(^a.a$)}", "/files/a/a", params{"path": "a/a"}},
		{"pattern of the rest, another value", "files/{*path:regex(^a$)}", "/files/a/b", nil},
		{"pattern of the rest of nothing", "files/{*path:regex(^$)}", "/files", nil},
		{"braces", "{n:regex(^a{{2}}$)}", "/aa", params{"n": "aa"}},
		{"pattern, a letter that folds to another", "files/{file:regex(^[a-z]+[.]js$)}", "/files/a%C5%BF.js", nil},
		{"empty segment first", "files/{*path}", "//files", nil},
		{"empty segment", "files/{id}/x", "/files//x", nil},
		{"empty segment last", "files/{*path}", "/files//", nil},
		{"empty segment of an optional one", "files/{id?}", "/files//", nil},
		{"empty segment in the rest", "files/{*path}", "/files/a//b", params{"path": "a//b"}},
		{"empty segment at the rest", "files/{*path}", "/files//a", nil},
		{"root", "", "/", params{}},
		{"root and more", "", "/x", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r, err := app.ParseRoute(test.route)
			if err != nil {
				t.Fatal(err)
			}
			got, ok := r.Match(strings.TrimPrefix(test.path, "/"))
			if ok != (test.want != nil) || ok && !cmp.Equal(test.want, got) {
				t.Errorf("%s.Match(%s) = %v, %v, want %v", test.route, test.path, got, ok, test.want)
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
