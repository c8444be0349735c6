package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"tablesweep/internal/proof"
)

// tryConsole asks an app with keys for the console without a key, and for all else by way
// of it.
func tryConsole(t *testing.T, a *localApp) {
	t.Helper()
	for path, want := range map[string]string{
		"/api/console":          "302 Location console/",
		"/API/Console":          "302 Location Console/",
		"/api/console/":         "200 text/html; charset=utf-8",
		"/api/console/app.js":   "200 text/javascript; charset=utf-8",
		"/api/console/App.JS/":  "404 application/problem+json", // the route matches, no file does
		"/api/console/app.js/":  "200 text/javascript; charset=utf-8",
		"/api/console/none.css": "404 application/problem+json",
	} {
		resp := raw(t, a, "GET", path)
		got := resp.Status[:3] + " " + resp.Header.Get("Content-Type")
		if l := resp.Header.Get("Location"); l != "" {
			got = resp.Status[:3] + " Location " + l
		}
		if got != want {
			t.Errorf("GET %s: %s, want %s", path, got, want)
		}
	}
	if resp := raw(t, a, "POST", "/api/console/"); resp.StatusCode != 405 || resp.Header.Get("Allow") != "GET, HEAD, OPTIONS" {
		t.Errorf("POST /api/console/: %s, Allow %q", resp.Status, resp.Header.Get("Allow"))
	}
	// A dot, a slash and a backslash in every form, between the console and another route.
	for _, dots := range []string{"..", "%2e%2e", "%252e%252e", "%25252e%25252e", "%c0%ae%c0%ae"} {
		for _, slash := range []string{"/", `\`, "%2F", "%5C", "%252F", "%255C", "%25255C", "%c0%af"} {
			for _, before := range []string{"/api/console/", "/api/console", "/api/console/app.js%0A", "/api/console%5C", "/api/console/x.js%23/"} {
				for to, method := range map[string]string{"scans": "GET", "Maintain": "POST"} {
					for _, path := range []string{before + dots + slash + to, before + slash + dots + slash + to, before + dots + slash + dots + slash + to} {
						resp := raw(t, a, method, path)
						if !slices.Contains([]int{400, 401, 404, 405}, resp.StatusCode) {
							t.Errorf("%s %s: %s without a key", method, path, resp.Status)
						}
					}
				}
			}
		}
	}
}

// tryPacked asks for a compressed file, and then for the same file again.
func tryPacked(t *testing.T, a *localApp) {
	t.Helper()
	ask := func(header, value string) *http.Response {
		req, err := http.NewRequest(http.MethodGet, a.url+"/api/console/app.js", nil)
		proof.Must(t, err)
		req.Header.Set(header, value)
		resp, err := http.DefaultClient.Do(req)
		proof.Must(t, err)
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatal(err)
		}
		return resp
	}
	first := ask("Accept-Encoding", "gzip")
	if first.StatusCode != 200 || first.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("a compressed file: %s %v", first.Status, first.Header)
	}
	if again := ask("If-None-Match", first.Header.Get("ETag")); again.StatusCode != 304 {
		t.Errorf("the same file again: %s, want 304", again.Status)
	}
}

// raw sends a request line as it is, without a key, and returns the answer, which has been
// read.
func raw(t *testing.T, a *localApp, method, path string) *http.Response {
	t.Helper()
	host := strings.TrimPrefix(a.url, "http://")
	conn, err := net.DialTimeout("tcp", host, 10*time.Second)
	proof.Must(t, err)
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}", method, path, host); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	return resp
}
