package function_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"tablesweep/internal/app/envelope"
	"tablesweep/internal/app/function"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/testsize"
)

// send sends a request with the given host name, or with the server's own name if host is "".
func send(t *testing.T, server *httptest.Server, method, path, body, host string, header http.Header) (status int, answer string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
	proof.Must(t, err)
	r.Host, r.Header = host, header
	resp, err := http.DefaultClient.Do(r)
	proof.Must(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	proof.Must(t, err)
	return resp.StatusCode, string(b)
}

// answerTo returns a handler's answer to a request. The target is "METHOD PATH". A header is "NAME: VALUE", and is left out if its value is empty.
func answerTo(h http.Handler, target, host, body string, headers ...string) *httptest.ResponseRecorder {
	method, path, _ := strings.Cut(target, " ")
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = host
	for _, header := range headers {
		if name, value, _ := strings.Cut(header, ": "); value != "" {
			r.Header.Add(name, value)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestInvocationsComeFromTheHost: if a forwarding host resolves a caller's path to a queue or timer function, the function does not get the request, whatever
// headers the request has.
func TestInvocationsComeFromTheHost(t *testing.T) {
	server := httptest.NewServer(newApp(t))
	defer server.Close()
	for _, tt := range []struct {
		name, method, path, host string
		header                   string // "NAME: VALUE"
		want                     int
	}{
		{"the host", "POST", "/Maintain", "", "", 200},
		{"a caller", "POST", "/Maintain", "app.azurewebsites.net", "", 404},
		{"a caller with this address as host", "POST", "/Maintain", "", "X-Forwarded-For: 7.7.7.7", 404},
		{"a caller through a proxy", "POST", "/Maintain", "", "X-Forwarded-Host: app.example", 404},
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

// TestBrowsersCannotBypassTheHost: requests that a web page sends to the handler's own port are refused. The same requests are accepted if a host passes them
// on.
func TestBrowsersCannotBypassTheHost(t *testing.T) {
	a := newApp(t)
	for _, tt := range []struct {
		name    string
		headers []string
		refused bool
	}{
		{"the host, or a program", nil, false},
		{"a page", []string{"Origin"}, true},
		{"a page, no Origin", []string{"Sec-Fetch-Site"}, true},
		{"a page through a host", []string{"Origin", "Sec-Fetch-Site", "X-Azure-Functions-InvocationId"}, false},
		{"a page through a proxying host", []string{"Origin", "X-Forwarded-Host"}, false},
		{"a page through another proxying host", []string{"Origin", "X-Ms-Invocation-Id"}, false},
	} {
		for _, target := range []string{"POST /api/log/orders", "GET /api/scans", "GET /"} {
			var headers []string
			for _, name := range tt.headers {
				headers = append(headers, name+": https://evil.example")
			}
			w := answerTo(a, target, "", timerBody, headers...)
			if (w.Code == http.StatusNotFound) != tt.refused {
				t.Errorf("%s, %s: status %d, want refused %v", target, tt.name, w.Code, tt.refused)
			}
		}
	}
}

// TestPagesOfOtherSites: a request of another site's page is refused if a browser sends it without a preflight. This holds in every environment, for every
// method that may change data. The host's CORS settings decide about requests with a preflight. Programs send neither header.
func TestPagesOfOtherSites(t *testing.T) {
	testsize.WithoutRace(t)
	parts := newApp(t).parts
	const own, secret = "app.example:7071", "SECRET"
	handlers := map[function.Host]http.Handler{}
	for _, host := range []function.Host{{}, {Secret: secret}, {Secret: secret, Development: true}} {
		handlers[host] = function.Handler(function.Functions(parts), host, zerolog.Nop())
	}
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
				for host, h := range handlers {
					w := answerTo(h, method+" /api/scans/x/retry", "127.0.0.1:39011", "{}", "Origin: "+tt.origin, "Sec-Fetch-Site: "+tt.site, "Content-Type: "+contentType,
						"X-Forwarded-Host: "+own, "X-Azure-Functions-InvocationId: "+invocation, envelope.HeaderSecret+": "+host.Secret)
					preflighted := slices.Contains([]string{"GET", "HEAD", "OPTIONS"}, method) || slices.Contains([]string{"application/json", "application/merge-patch+json", "application/x-ndjson"}, contentType)
					if refused := w.Code == http.StatusForbidden; refused != (tt.foreign && !preflighted) || refused && !strings.Contains(w.Body.String(), "application/json") {
						t.Errorf("%s, %s with Content-Type %q: status %d, body %s", tt.name, method, contentType, w.Code, w.Body)
					}
				}
			}
		}
	}
}

// TestSecret: a handler whose host has given it a secret answers only that host, and never sends the secret.
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
				t.Errorf("%s with secret %q: status %d, answer %s, body read: %v", target, given, w.Code, w.Body, body.read)
			}
			if strings.Contains(log.String()+w.Body.String(), "SECRE") {
				t.Fatalf("%s: the answer contains the secret: %s %s", target, log.String(), w.Body)
			}
		}
	}
}

// readBody records whether it was read.
type readBody struct {
	io.Reader
	read bool
}

func (b *readBody) Read(p []byte) (int, error) {
	b.read = true
	return b.Reader.Read(p)
}

// TestDNSRebindingIsRefused: on a developer's machine, a web page whose name resolves to this machine is refused, whether it sends its requests to this port
// or to a host.
func TestDNSRebindingIsRefused(t *testing.T) {
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
		{"a page with a forged X-Forwarded-Host", "evil.example:7071", []string{"localhost"}, true},
		{"a page, proxied", "127.0.0.1:39011", []string{"evil.example:7071"}, true},
		{"a page, proxied twice", "127.0.0.1:39011", []string{"localhost", "evil.example"}, true},
		{"a page, proxied twice, in one header", "127.0.0.1:39011", []string{"localhost, evil.example"}, true},
		{"no name", "", nil, true},
	} {
		for _, development := range []bool{true, false} {
			h := function.Handler(function.Functions(parts), function.Host{Development: development}, zerolog.Nop())
			for _, target := range []string{"GET /api/scans", "DELETE /api/log?stream=s", "GET /api/console/", "GET /"} {
				var headers []string
				for _, name := range tt.forwardedHost {
					headers = append(headers, "X-Forwarded-Host: "+name)
				}
				w := answerTo(h, target, tt.host, "", headers...)
				refused := w.Code == http.StatusNotFound && strings.Contains(w.Body.String(), "is not a name of this machine")
				if refused != (tt.refused && development) {
					t.Errorf("%s, %s, in development %v: status %d, body %s", tt.name, target, development, w.Code, w.Body)
				}
				if refused && tt.host != "" && !strings.Contains(w.Body.String(), "evil.example") {
					t.Errorf("%s, %s: the answer does not contain the name: %s", tt.name, target, w.Body)
				}
			}
		}
	}
}

// TestHostWithoutProxying: each HTTP function answers a host that neither proxies nor forwards as TestRealHost expects, and only after the whole body has
// arrived.
func TestHostWithoutProxying(t *testing.T) {
	a := newApp(t)
	server := httptest.NewServer(a)
	defer server.Close()
	n := 0
	for _, f := range function.Functions(a.parts) {
		if f.Trigger != function.HTTP {
			continue
		}
		n++
		body := strings.NewReader(strings.Repeat(" ", 20<<20))
		resp, err := http.Post(server.URL+"/"+f.Name, "application/json; charset=utf-8", struct{ io.Reader }{body})
		proof.Must(t, err)
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || body.Len() > 0 || resp.StatusCode != 200 || !strings.HasPrefix(string(text), `{"Outputs":{"res":{"statusCode":502,`) {
			t.Errorf("%s: error %v, %d bytes not read, status %d, answer %s", f.Name, err, body.Len(), resp.StatusCode, text)
		}
		if status, answer := send(t, server, "POST", "/"+f.Name, "{}", "", http.Header{"X-Functions-Key": {"KEY"}}); status != 404 {
			t.Errorf("a caller's request for %s: status %d, answer %s; want 404", f.Name, status, answer)
		}
	}
	if n != 8 {
		t.Errorf("%d HTTP functions, want 8", n)
	}
}

// TestInvocationID: the log contains the id of the host's request, and nothing that a caller has added to it.
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
		h := function.Handler(function.Functions(function.App{}), function.Host{}, zerolog.New(&log)) // its calls panic
		r := httptest.NewRequest("GET", "/api/scans", nil)
		r.Header["X-Azure-Functions-Invocationid"] = tt.given
		h.ServeHTTP(httptest.NewRecorder(), r)
		if got := log.String(); strings.Contains(got, `"invocation":"`+invocation+`"`) != tt.want || strings.Contains(got, `"invocation"`) != tt.want || slices.Contains(tt.given, "FORGED") && strings.Contains(got, "FORGED") {
			t.Errorf("given ids %q: the log is %s", tt.given, got)
		}
	}
}
