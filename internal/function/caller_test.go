package function_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"tablesweep/internal/function"
	"tablesweep/internal/host/envelope"
	"tablesweep/internal/proof/testsize"
)

// send sends a request that names a host, "" for the server itself.
func send(t *testing.T, server *httptest.Server, method, path, body, host string, header http.Header) (status int, answer string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Host, r.Header = host, header
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// TestInvocationsComeFromTheHost: if a forwarding host resolves a caller's path to a queue or timer
// function, the request does not reach it, whatever it says about itself.
func TestInvocationsComeFromTheHost(t *testing.T) {
	server := httptest.NewServer(newApp(t))
	defer server.Close()
	for _, tt := range []struct {
		name, method, path, host string
		header                   string // NAME: VALUE
		want                     int
	}{
		{"the host", "POST", "/Maintain", "", "", 200},
		{"a caller", "POST", "/Maintain", "app.azurewebsites.net", "", 404},
		{"a caller who names this address", "POST", "/Maintain", "", "X-Forwarded-For: 7.7.7.7", 404},
		{"a caller by way of a proxy", "POST", "/Maintain", "", "X-Forwarded-Host: app.example", 404},
		{"a caller with a key", "POST", "/Maintain", "", "x-functions-key: KEY", 404},
		{"a caller with an empty key", "POST", "/Maintain", "", "x-functions-key: ", 404},
		{"a caller with a key in the query", "POST", "/Maintain?code=KEY", "", "", 404},
		{"a caller with a key in the query, in capitals", "POST", "/Maintain?CODE=KEY", "", "", 404},
		{"a usual client", "POST", "/Maintain", "", "Accept: */*", 404},
		{"another method", "GET", "/Maintain", "", "", 404},
		{"another method for a caller", "PUT", "/CopyRows", "app.example", "", 404},
		{"options", "OPTIONS", "/CopyRows", "", "", 404},
		{"another case", "POST", "/maintain/", "", "x-functions-key: KEY", 404},
		{"the health check", "GET", "/", "", "", 204},
	} {
		name, value, _ := strings.Cut(tt.header, ": ")
		header := http.Header{}
		if name != "" {
			header.Set(name, value)
		}
		if status, _ := send(t, server, tt.method, tt.path, timerBody, tt.host, header); status != tt.want {
			t.Errorf("%s: status %d, want %d", tt.name, status, tt.want)
		}
	}
}

// TestBrowsersPastTheHost: requests of a web page to the handler's own port reach no function; those
// that a host hands on do.
func TestBrowsersPastTheHost(t *testing.T) {
	a := newApp(t)
	for _, tt := range []struct {
		name    string
		headers []string
		refused bool
	}{
		{"the host, or a program", nil, false},
		{"a page", []string{"Origin"}, true},
		{"a page, no Origin", []string{"Sec-Fetch-Site"}, true},
		{"a page by a host", []string{"Origin", "Sec-Fetch-Site", "X-Azure-Functions-InvocationId"}, false},
		{"a page by a proxying host", []string{"Origin", "X-Forwarded-Host"}, false},
		{"a page by another proxying host", []string{"Origin", "X-Ms-Invocation-Id"}, false},
	} {
		for _, target := range []string{"POST /api/log/orders", "GET /api/scans", "GET /"} {
			method, path, _ := strings.Cut(target, " ")
			r := httptest.NewRequest(method, path, strings.NewReader(timerBody))
			for _, name := range tt.headers {
				r.Header.Set(name, "https://evil.example")
			}
			w := httptest.NewRecorder()
			a.ServeHTTP(w, r)
			if (w.Code == http.StatusNotFound) != tt.refused {
				t.Errorf("%s, %s: status %d, refused: want %v", target, tt.name, w.Code, tt.refused)
			}
		}
	}
}

// TestPagesOfOtherSites: what a browser sends for another site's page without asking first is refused, in every environment and by every method that
// may change something. What it asks for first is for the host's CORS settings to decide, and programs send neither header.
func TestPagesOfOtherSites(t *testing.T) {
	testsize.WithoutRace(t)
	parts := newApp(t).parts
	const own, secret = "app.example:7071", "SECRET"
	for _, tt := range []struct {
		name, origin, site string
		foreign            bool
	}{
		{"a program", "", "", false},
		{"the console", "http://" + own, "same-origin", false},
		{"the console without TLS", "http://" + own, "", false},
		{"the console behind another name", "https://other.example", "same-origin", false},
		{"the address line", "", "none", false},
		{"another site", "https://evil.example", "cross-site", true},
		{"another site in an old browser", "https://evil.example", "", true},
		{"another site's form", "", "cross-site", true},
		{"another port", "http://app.example:1", "same-site", true},
		{"another port in an old browser", "http://app.example:1", "", true},
		{"a frame without an origin", "null", "cross-site", true},
		{"a file", "null", "", true},
	} {
		for _, contentType := range []string{
			"", "application/x-www-form-urlencoded", "Multipart/Form-Data; boundary=b", "text/plain;charset=UTF-8", "text/plain; application/json",
			"application/json", "application/merge-patch+json", "application/x-ndjson",
		} {
			for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
				for _, host := range []function.Host{{}, {Secret: secret}, {Secret: secret, Development: true}} {
					r := httptest.NewRequest(method, "/api/scans/x/retry", strings.NewReader("{}"))
					r.Host = "127.0.0.1:39011"
					for name, value := range map[string]string{
						"Origin": tt.origin, "Sec-Fetch-Site": tt.site, "Content-Type": contentType,
						"X-Forwarded-Host": own, "X-Azure-Functions-InvocationId": invocation, envelope.HeaderSecret: host.Secret,
					} {
						if value != "" {
							r.Header.Set(name, value)
						}
					}
					w := httptest.NewRecorder()
					function.Handler(function.Functions(parts), host, zerolog.Nop()).ServeHTTP(w, r)
					asks := slices.Contains([]string{"GET", "HEAD", "OPTIONS"}, method) || slices.Contains([]string{"application/json", "application/merge-patch+json", "application/x-ndjson"}, contentType)
					if refused := w.Code == http.StatusForbidden; refused != (tt.foreign && !asks) || refused && !strings.Contains(w.Body.String(), "application/json") {
						t.Errorf("%s, %s with %q: status %d %s", tt.name, method, contentType, w.Code, w.Body)
					}
				}
			}
		}
	}
}

// TestSecret: a handler whose host has given it a secret answers nobody else, and tells the secret to nobody.
func TestSecret(t *testing.T) {
	whole := newApp(t)
	var log strings.Builder
	h := function.Handler(function.Functions(whole.parts), function.Host{Secret: "SECRET", Development: true}, zerolog.New(&log).Level(zerolog.TraceLevel))
	for _, target := range []string{"GET /", "GET /api/scans", "DELETE /api/log?stream=s", "POST /Maintain", "OPTIONS /api/scans"} {
		for given, admitted := range map[string]bool{"SECRET": true, "": false, "secret": false, "SECRE": false, "SECRETS": false} {
			method, path, _ := strings.Cut(target, " ")
			body := &readBody{Reader: strings.NewReader(timerBody)}
			r := httptest.NewRequest(method, path, body)
			r.Header.Set("X-Azure-Functions-InvocationId", invocation)
			if given != "" {
				r.Header.Set(envelope.HeaderSecret, given)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if refused := strings.Contains(w.Body.String(), "there is no "+method); refused == admitted || refused && (w.Code != http.StatusNotFound || body.read) {
				t.Errorf("%s with %q: status %d %s, body read: %v", target, given, w.Code, w.Body, body.read)
			}
			if strings.Contains(log.String()+w.Body.String(), "SECRE") {
				t.Fatalf("%s tells the secret: %s %s", target, log.String(), w.Body)
			}
		}
	}
}

// readBody notes whether it was read.
type readBody struct {
	io.Reader
	read bool
}

func (b *readBody) Read(p []byte) (int, error) {
	b.read = true
	return b.Reader.Read(p)
}

// TestReboundNames: on a developer's machine, a web page whose name resolves to it is refused by that name, sent to this port
// or by a host.
func TestReboundNames(t *testing.T) {
	parts := newApp(t).parts
	for _, tt := range []struct {
		name, host    string
		forwardedHost []string
		refused       bool
	}{
		{"the host itself", "127.0.0.1:39011", nil, false},
		{"another name of this machine", "localhost:7071", nil, false},
		{"another name of this machine, version 6", "[::1]:7071", nil, false},
		{"proxied", "127.0.0.1:39011", []string{"localhost:7071"}, false},
		{"a page, directly", "evil.example:39011", nil, true},
		{"a page that says more", "evil.example:7071", []string{"localhost"}, true},
		{"a page, proxied", "127.0.0.1:39011", []string{"evil.example:7071"}, true},
		{"a page, proxied twice", "127.0.0.1:39011", []string{"localhost", "evil.example"}, true},
		{"a page, proxied twice in a line", "127.0.0.1:39011", []string{"localhost, evil.example"}, true},
		{"no name", "", nil, true},
	} {
		for _, development := range []bool{true, false} {
			h := function.Handler(function.Functions(parts), function.Host{Development: development}, zerolog.Nop())
			for _, target := range []string{"GET /api/scans", "DELETE /api/log?stream=s", "GET /api/console/", "GET /"} {
				method, path, _ := strings.Cut(target, " ")
				r := httptest.NewRequest(method, path, nil)
				r.Host = tt.host
				r.Header["X-Forwarded-Host"] = tt.forwardedHost
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				refused := w.Code == http.StatusNotFound && strings.Contains(w.Body.String(), "is not a name of this machine")
				if refused != (tt.refused && development) {
					t.Errorf("%s, %s, in development %v: status %d %s", tt.name, target, development, w.Code, w.Body)
				}
				if refused && tt.host != "" && !strings.Contains(w.Body.String(), "evil.example") {
					t.Errorf("%s, %s: the answer does not say which name: %s", tt.name, target, w.Body)
				}
			}
		}
	}
}

// TestForwarded: a host that forwards a request in place of proxying it may have changed it. So it reaches no function, and the answer says
// what to do. The host's own calls, which name it too, are handled.
func TestForwarded(t *testing.T) {
	a := newApp(t)
	for _, target := range []string{
		"POST /api/log?stream=tr", "POST /API/Log/tr", "GET /api/log/tr", "DELETE /api/log?stream=tr", "GET /api/console/", "GET /api/scans", "POST /api/scans",
		"PUT " + people + "?eid=1", "GET " + people + "?eid=1%2C2", "OPTIONS /api/scans", "GET /api/health", "GET /api/none",
	} {
		method, path, _ := strings.Cut(target, " ")
		for _, agent := range []string{"Azure-Functions-Host/4.1037.0.0", "curl/8 (x; y) Azure-Functions-Host/4.1037.0.0"} {
			w := a.send(method, path, `{"n":1}`, "User-Agent", agent)
			if w.Code != http.StatusBadGateway || w.Header().Get("Content-Type") != "application/problem+json" || !strings.Contains(w.Body.String(), "enableProxyingHttpRequest") {
				t.Errorf("%s: %d %v %s", target, w.Code, w.Header(), w.Body)
			}
		}
	}
	a.call(t, "GET", "/api/log", "", 200, `{"streams":[]}`)
	a.call(t, "POST", "/Maintain", timerBody, 200, `{"Outputs":{}`, "User-Agent", "Azure-Functions-Host/4.1037.0.0")
}

// endless is a body of so many bytes, of which it notes how many were read.
type endless struct{ left, read int }

func (b *endless) Read(p []byte) (int, error) {
	n := min(len(p), b.left)
	clear(p[:n])
	b.left, b.read = b.left-n, b.read+n
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// TestNotProxied: a host that neither proxies nor forwards calls an HTTP function with an envelope, as those of the queues. The answer is the one
// form of which that host makes the caller a 502 that says what to do. It comes after the whole body.
func TestNotProxied(t *testing.T) {
	a := newApp(t)
	server := httptest.NewServer(a)
	defer server.Close()
	n := 0
	for _, f := range function.Functions(a.parts) {
		if f.Trigger != function.HTTP {
			continue
		}
		n++
		body := &endless{left: 20 << 20}
		r, err := http.NewRequestWithContext(t.Context(), "POST", server.URL+"/"+f.Name, body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json; charset=utf-8")
		r.Header.Set("User-Agent", "Azure-Functions-Host/4.1037.0.0")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || body.left > 0 || resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "application/json" {
			t.Fatalf("%s: %v, %d bytes read, %d %v %s", f.Name, err, body.read, resp.StatusCode, resp.Header, text)
		}
		var got struct {
			Outputs struct {
				Res struct {
					StatusCode int
					Body       string
					Headers    map[string]string
				}
			}
			Logs        []string
			ReturnValue json.RawMessage
		}
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		res := got.Outputs.Res
		if res.StatusCode != 502 || !maps.Equal(res.Headers, map[string]string{"Content-Type": "application/problem+json"}) || string(got.ReturnValue) != "null" ||
			!strings.HasPrefix(res.Body, `{"title":"Bad Gateway","status":502,"detail":"`) || len(got.Logs) != 1 || !strings.Contains(res.Body, got.Logs[0]) {
			t.Errorf("%s: %s", f.Name, text)
		}
		for _, word := range []string{"customHandler.enableProxyingHttpRequest to true in host.json", "update the host"} {
			if !strings.Contains(got.Logs[0], word) {
				t.Errorf("%s: %q is not said", f.Name, word)
			}
		}
		if status, answer := send(t, server, "POST", "/"+f.Name, "{}", "", http.Header{"X-Functions-Key": {"KEY"}}); status != 404 {
			t.Errorf("%s, called by a caller: %d %s", f.Name, status, answer)
		}
	}
	if n != 8 {
		t.Errorf("%d HTTP functions, want 8", n)
	}
}

// TestInvocationID: the log has the id of the host, whatever a caller sends.
func TestInvocationID(t *testing.T) {
	for _, tt := range []struct {
		given []string
		want  bool
	}{
		{[]string{invocation}, true},
		{[]string{"FORGED, " + invocation}, false},
		{[]string{"FORGED", invocation}, false},
		{[]string{"FORGED"}, false},
		{[]string{invocation + ", FORGED"}, false},
		{[]string{"{" + invocation + "}"}, false},
		{[]string{"urn:uuid:" + invocation}, false},
		{[]string{strings.ReplaceAll(invocation, "-", "")}, false},
		{[]string{strings.Repeat("x", 36)}, false},
		{nil, false},
	} {
		var log strings.Builder
		h := function.Handler(function.Functions(function.App{}), function.Host{}, zerolog.New(&log)) // panics
		r := httptest.NewRequest("GET", "/api/scans", nil)
		r.Header["X-Azure-Functions-Invocationid"] = tt.given
		h.ServeHTTP(httptest.NewRecorder(), r)
		if got := log.String(); strings.Contains(got, `"invocation":"`+invocation+`"`) != tt.want || strings.Contains(got, `"invocation"`) != tt.want || slices.Contains(tt.given, "FORGED") && strings.Contains(got, "FORGED") {
			t.Errorf("%q: the log has %s", tt.given, got)
		}
	}
}
