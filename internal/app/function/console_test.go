package function_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"

	"tablesweep/internal/app/function"
)

func TestConsole(t *testing.T) {
	on, off := appOf(function.App{Console: true}), appOf(function.App{})
	for _, tt := range []struct {
		method, path string
		status       int
		kind, want   string // the beginning of the body, or the Location
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
			t.Errorf("%s %s: status %d, header %v, body %.200s; want %d, %s, %q", tt.method, tt.path, w.Code, h, w.Body, tt.status, tt.kind, tt.want)
		}
		if tt.status != http.StatusMethodNotAllowed && !strings.HasSuffix(tt.path, "/a/b") { // such paths do not belong to the console
			const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"
			if h.Get("Content-Security-Policy") != policy || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "no-referrer" {
				t.Errorf("%s: wrong headers %v", tt.path, h)
			}
		}
		if w := off.send(tt.method, tt.path, ""); w.Code != http.StatusNotFound {
			t.Errorf("%s %s with the console off: status %d, want 404", tt.method, tt.path, w.Code)
		}
	}
}

// TestConsoleFiles: files are compressed if the caller accepts that, and are not sent again to a caller that already
// has them.
func TestConsoleFiles(t *testing.T) {
	a := appOf(function.App{Console: true})
	plain := a.send("GET", "/api/console/style.css", "")
	tag := plain.Header().Get("ETag")
	for _, tt := range []struct {
		name   string
		header []string
		status int
		packed bool
	}{
		{"compression not accepted", nil, 200, false},
		{"compression accepted", []string{"Accept-Encoding", "gzip, deflate, br"}, 200, true},
		{"in upper case, with a weight", []string{"Accept-Encoding", "br, GZIP; q=0.5"}, 200, true},
		{"anything", []string{"Accept-Encoding", "*"}, 200, true},
		{"anything else", []string{"Accept-Encoding", "*, gzip;q=0"}, 200, false},
		{"refused", []string{"Accept-Encoding", "gzip;q=0, identity"}, 200, false},
		{"nothing", []string{"Accept-Encoding", "*;q=0"}, 200, false},
		{"there already", []string{"If-None-Match", tag}, 304, false},
		{"cached, compressed", []string{"If-None-Match", `"x", ` + tag, "Accept-Encoding", "gzip"}, 304, false},
		{"another version cached", []string{"If-None-Match", `W/"x"`}, 200, false},
	} {
		w := a.send("GET", "/api/console/style.css", "", tt.header...)
		h := w.Header()
		body := io.Reader(w.Body)
		packed := h.Get("Content-Encoding") == "gzip"
		if packed && w.Code == http.StatusOK {
			unpacked, err := gzip.NewReader(w.Body)
			if err != nil {
				t.Fatalf("%s: error %v", tt.name, err)
			}
			body = unpacked
		}
		got, err := io.ReadAll(body)
		if err != nil {
			t.Fatalf("%s: error %v", tt.name, err)
		}
		want := plain.Body.String()
		if tt.status == http.StatusNotModified {
			want = ""
		}
		if w.Code != tt.status || packed != tt.packed || string(got) != want || h.Get("ETag") != tag || tag == "" || h.Get("Cache-Control") != "no-cache" || h.Get("Vary") != "Accept-Encoding" {
			t.Errorf("%s: status %d, header %v, %d bytes; want status %d, compressed %v", tt.name, w.Code, h, len(got), tt.status, tt.packed)
		}
	}
	if other := a.send("GET", "/api/console/app.js", "").Header().Get("ETag"); other == tag {
		t.Error("two files have one ETag")
	}
}
