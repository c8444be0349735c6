package function_test

import (
	"net/http"
	"strings"
	"testing"

	"tablesweep/internal/function"
)

func TestConsole(t *testing.T) {
	on, off := appOf(function.App{Console: true}), appOf(function.App{})
	for _, tt := range []struct {
		method, path string
		status       int
		kind, want   string // of the body, or Location
	}{
		{"GET", "/api/console", 302, "", "console/"},
		{"GET", "/API/Console", 302, "", "Console/"},
		{"HEAD", "/api/console", 302, "", "console/"},
		{"GET", "/api/console/", 200, "text/html; charset=utf-8", "<!doctype html>"},
		{"HEAD", "/api/console/", 200, "text/html; charset=utf-8", ""},
		{"GET", "/api/console/app.js", 200, "text/javascript; charset=utf-8", ""},
		{"GET", "/API/CONSOLE/style.css", 200, "text/css; charset=utf-8", ""},
		{"GET", "/api/console/none.js", 404, "application/problem+json", "there is no"},
		{"GET", "/api/console/App.js", 404, "application/problem+json", ""},
		{"GET", "/api/console/page", 404, "application/problem+json", ""},
		{"GET", "/api/console/..%2Fconsole.go", 404, "application/problem+json", ""},
		{"GET", "/api/console/..%5Cconsole.go", 404, "application/problem+json", ""},
		{"GET", "/api/console/a/b", 404, "application/problem+json", ""},
		{"POST", "/api/console/", 405, "application/problem+json", "allowed: GET, HEAD, OPTIONS"},
	} {
		w := on.send(tt.method, tt.path, "")
		h := w.Header()
		if w.Code != tt.status || h.Get("Content-Type") != tt.kind || !strings.Contains(w.Body.String()+h.Get("Location"), tt.want) {
			t.Errorf("%s %s: %d %v %.200s; want %d, %s, %q", tt.method, tt.path, w.Code, h, w.Body, tt.status, tt.kind, tt.want)
		}
		if tt.status != http.StatusMethodNotAllowed && !strings.HasSuffix(tt.path, "/a/b") { // those are no file's
			const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
			if h.Get("Content-Security-Policy") != policy || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "no-referrer" {
				t.Errorf("%s: headers %v", tt.path, h)
			}
		}
		if w := off.send(tt.method, tt.path, ""); w.Code != http.StatusNotFound {
			t.Errorf("%s %s, with the console off: %d, want 404", tt.method, tt.path, w.Code)
		}
	}
}
