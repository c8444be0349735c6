package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"tablesweep/internal/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/testsize"
)

// TestHTTP sends the app what callers send, by the local host.
func TestHTTP(t *testing.T) {
	t.Parallel()
	// Each request to the storage takes so long that a client can leave meanwhile.
	_, _, connection := serveEmulator(t, emulator.Options{Latency: 20 * time.Millisecond})
	settings := map[string]string{"TABLE_CATALOG_NAME": "People", "TABLE_CATALOG_INDEX_KEYS": "eid", "TABLE_CATALOG_ROW_KEY": "name"}
	a := startApp(t, settings, "--storage", connection, "--keys=KEY")
	tryHTTP(t, a)
	tryConsole(t, a)
	tryPacked(t, a)
	a.stop(t)
	if strings.Contains(a.log.String(), "KEY") {
		t.Errorf("the log has the function key:\n%s", &a.log)
	}
}

func tryHTTP(t *testing.T, a *localApp) {
	t.Helper()
	const event, record = `{"n":1}`, `{"eid":"1","name":"A"}`
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = io.WriteString(w, record)
	_ = w.Close()
	chunked := func(s string) io.Reader { return io.MultiReader(strings.NewReader(s)) }
	for _, tt := range []struct {
		name, method, path string
		body               io.Reader
		header             string // NAME: VALUE
		status             int
		want               string // in the body or the header Allow
	}{
		{"append", "POST", "/api/log?stream=a", strings.NewReader(event), "", 201, `"id"`},
		{"append by the path", "POST", "/api/log/b", strings.NewReader(event), "", 201, ""},
		{"append too much", "POST", "/api/log?stream=a", bytes.NewReader(make([]byte, testsize.Slow(9, 9, 100)<<20)), "", 413, ""},
		{"append in chunks", "POST", "/api/log?stream=a", chunked(event), "", 201, ""},
		{"a name with #", "POST", "/api/log/a%23b", strings.NewReader(event), "", 201, ""},
		{"a name with / in the query", "POST", "/api/log?stream=x%2Fy%5Cz%25", strings.NewReader(event), "", 201, ""},
		{"a name with /", "POST", "/api/log/a%2Fb", strings.NewReader(event), "", 400, "/api/log?stream="},
		{"a name with an escaped %2F", "POST", "/api/log/a%252Fb", strings.NewReader(event), "", 400, "/api/log?stream="},
		{"a name with a backslash", "POST", "/api/log/a%5Cb", strings.NewReader(event), "", 400, "/api/log?stream="},
		{"a name with %", "POST", "/api/log/50%25", strings.NewReader(event), "", 400, "/api/log?stream="},
		{"a timer function", "POST", "/api/log/..%5C..%5CMaintain", strings.NewReader(`{"Data":{"timer":"{}"}}`), "", 400, ""},
		{"a timer function, escaped twice", "POST", "/api/log/%252e%252e/%252e%252e/Maintain", strings.NewReader(`{"Data":{"timer":"{}"}}`), "", 400, ""},
		{"insert", "POST", "/api/catalog/records", strings.NewReader(record), "", 201, record},
		{"insert packed", "POST", "/api/catalog/records", bytes.NewReader(packed.Bytes()), "Content-Encoding: gzip", 200, ""},
		{"insert otherwise packed", "POST", "/api/catalog/records", strings.NewReader(record), "Content-Encoding: br", 415, ""},
		{"bad type", "POST", "/api/catalog/records", strings.NewReader(record), "Content-Type: foo bar", 415, ""},
		{"find in any case", "GET", "/API/Catalog/RECORDS/?eid=1", nil, "", 200, record},
		{"method", "PUT", "/api/scans", strings.NewReader("{}"), "", 405, "GET, POST, HEAD, OPTIONS"},
		{"options", "OPTIONS", "/api/scans", nil, "", 204, "GET, POST, HEAD, OPTIONS"},
		{"options of the catalog", "OPTIONS", "/api/catalog/changes", nil, "", 204, "GET, HEAD, OPTIONS"},
		{"head", "HEAD", "/api/scans", nil, "", 200, ""},
		{"a method that the catalog's functions lack", "PROPFIND", "/api/catalog/records", nil, "", 405, "PATCH"},
		{"a method that the log lacks", "PROPFIND", "/api/log/a", nil, "", 405, "POST"},
		{"delete", "DELETE", "/api/catalog/records?eid=1", nil, "", 200, `{"deleted":1}`},
		{"delete again", "DELETE", "/api/catalog/records?eid=1", nil, "", 200, `{"deleted":0}`},
	} {
		resp, body := a.send(t, tt.method, tt.path, tt.body, tt.header)
		if resp.StatusCode != tt.status || !strings.Contains(body+resp.Header.Get("Allow"), tt.want) {
			t.Errorf("%s: status %d, Allow %q, %s; want %d and %s", tt.name, resp.StatusCode, resp.Header.Get("Allow"), body, tt.status, tt.want)
		}
	}
	for stream, want := range map[string]int{"a": 2, "b": 1, "a#b": 1, `x/y\z%`: 1} {
		if _, body := a.send(t, "GET", "/api/log?stream="+url.QueryEscape(stream), nil, ""); strings.Count(body, `"event"`) != want {
			t.Errorf("stream %s: %s, want %d events", stream, body, want)
		}
	}
	// A client that leaves: its event is appended all the same. On a busy machine, it may leave before the app has its request.
	for wait := 10 * time.Millisecond; ; wait *= 2 {
		ctx, leave := context.WithTimeout(t.Context(), wait)
		defer leave()
		r, err := http.NewRequestWithContext(ctx, "POST", a.url+"/api/log?stream=left&code=KEY", strings.NewReader(event))
		proof.Must(t, err)
		if resp, err := http.DefaultClient.Do(r); err == nil {
			resp.Body.Close()
			t.Fatal("the client did not leave")
		}
		for late := time.Now().Add(3 * time.Second); time.Now().Before(late); {
			if _, body := a.send(t, "GET", "/api/log/left", nil, ""); strings.Contains(body, event) {
				return
			}
		}
		t.Logf("no event of a client that left after %v", wait)
	}
}

// send sends a request with the function key as a header, and reads the answer.
func (a *localApp) send(t *testing.T, method, path string, body io.Reader, header string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, a.url+path, body)
	proof.Must(t, err)
	r.Header.Set("x-functions-key", "KEY")
	if name, value, ok := strings.Cut(header, ": "); ok {
		r.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(fmt.Errorf("%w; stderr:\n%s", err, &a.log))
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	proof.Must(t, err)
	return resp, string(text)
}
