package host_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"tablesweep/internal/function"
	"tablesweep/internal/host"
	"tablesweep/internal/host/envelope"
)

// response is a response that was read.
type response struct {
	*http.Response
	text string
}

func do(t *testing.T, r *http.Request) response {
	t.Helper()
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response{resp, string(text)}
}

func request(t *testing.T, method, url string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// post sends a body, so that the request does not come again.
func post(t *testing.T, url string) response {
	t.Helper()
	return do(t, request(t, "POST", url, strings.NewReader("body")))
}

// chunked hides a reader's length, so that the request is sent in chunks.
func chunked(s string) io.Reader { return io.MultiReader(strings.NewReader(s)) }

func withHeader(r *http.Request, name, value string) *http.Request {
	r.Header.Set(name, value)
	return r
}

// zeros is a body that nobody keeps in memory.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// TestLargeBodies: more than 100 MB is refused, and doesn't reach the handler.
func TestLargeBodies(t *testing.T) {
	t.Parallel()
	o := newOrders(t, func(int, call) order { return order{} })
	r := startRig(t, o, "", host.Options{Functions: []function.Function{webFunction("web")}})
	req := request(t, "POST", r.URL()+"/api/web", zeros{})
	req.ContentLength = 100<<20 + 1
	if resp := do(t, withHeader(req, "Expect", "100-continue")); resp.StatusCode != 500 || len(o.all()) > 0 {
		t.Errorf("status %d, %d calls of the handler", resp.StatusCode, len(o.all()))
	}
}

func TestProxy(t *testing.T) {
	t.Parallel()
	o := newOrders(t, func(_ int, c call) order {
		return order{Status: 302, Header: map[string]string{"Location": "/elsewhere", "X-Own": "1"}, Body: "got " + c.Body}
	})
	r := startRig(t, o, "", host.Options{Functions: []function.Function{webFunction("things/{*rest}", "PATCH", "POST")}})
	req := withHeader(withHeader(request(t, "PATCH", r.URL()+"/API/Things/a/b?x=1&y=%26", chunked("body")), "X-Mine", "2"), "User-Agent", "curl/8")
	resp := do(t, req)
	if resp.StatusCode != 302 || resp.Header.Get("Location") != "/elsewhere" || resp.Header.Get("X-Own") != "1" || resp.text != "got body" {
		t.Errorf("answer %d %v %q", resp.StatusCode, resp.Header, resp.text)
	}
	c := o.all()[0]
	if c.Method != "PATCH" || c.URI != "/API/Things/a/b?x=1&y=%26" || c.Header.Get("X-Azure-Functions-InvocationId") == "" || c.Header.Get("X-Mine") != "2" ||
		c.Header.Get("User-Agent") != "curl/8" || c.Header.Get("Accept-Encoding") != "gzip" {
		t.Errorf("the handler got %+v", c)
	}
	do(t, withHeader(request(t, "POST", r.URL()+"/api/things", strings.NewReader("body")), "X-Forwarded-For", "7.7.7.7"))
	c = o.all()[1]
	if !strings.HasPrefix(c.Host, "127.0.0.1:") || "http://"+c.Host == r.URL() || "http://"+c.Header.Get("X-Forwarded-Host") != r.URL() ||
		c.Header.Get("X-Forwarded-Proto") != "http" || c.Header.Get("X-Forwarded-For") != "127.0.0.1" {
		t.Errorf("the handler got host %s and headers %v", c.Host, c.Header)
	}
	for _, target := range []string{"DELETE /api/things", "POST /api/thing", "POST /things", "POST /"} {
		method, path, _ := strings.Cut(target, " ")
		if resp := do(t, request(t, method, r.URL()+path, nil)); resp.StatusCode != 404 {
			t.Errorf("%s: status %d, want 404", target, resp.StatusCode)
		}
	}
}

// TestRepeats: a request without a body comes again when the connection was closed before an answer, whatever its method, and with the same
// invocation id: ten times up to four times. One with a body doesn't.
func TestRepeats(t *testing.T) {
	t.Parallel()
	o := newOrders(t, func(n int, c call) order { return order{Break: n > 1 || n == 0, Status: 201} })
	r := startRig(t, o, "", host.Options{Functions: []function.Function{webFunction("web")}})
	for _, tt := range []struct {
		body          string
		status, calls int
	}{{"", 201, 2}, {"body", 500, 1}, {"", 500, 40}} {
		before := len(o.all())
		resp := do(t, request(t, "POST", r.URL()+"/api/web", strings.NewReader(tt.body)))
		calls := o.all()[before:]
		if resp.StatusCode != tt.status || len(calls) != tt.calls {
			t.Errorf("status %d after %d calls, want %d after %d", resp.StatusCode, len(calls), tt.status, tt.calls)
		}
		if first, last := calls[0].Header.Get(envelope.HeaderInvocation), calls[len(calls)-1].Header.Get(envelope.HeaderInvocation); first == "" || last != first {
			t.Errorf("invocation %q comes again as %q", first, last)
		}
	}
}

// TestSecret: each process has a secret of its own, which every request of the host has, whatever a caller sends. The handlers of
// all tests end without it.
func TestSecret(t *testing.T) {
	t.Parallel()
	o := newOrders(t, func(n int, _ call) order {
		if n == 0 {
			return exit(200)
		}
		return answer("{}")
	})
	r := newRig(t, o)
	r.settings[envelope.SecretVariable] = "not the host's"
	r.start(t, fastQueues, host.Options{Functions: []function.Function{webFunction("web"), workFunction}})
	put(t, r.work, encode("a"))
	eventually(t, "a second process", func() bool { return len(r.log.lines("process is ready")) == 2 && r.PIDs()[0] != 0 })
	for _, name := range []string{envelope.HeaderSecret, "Connection", "x_tablesweep_host_secret"} {
		req := request(t, "POST", r.URL()+"/api/web", strings.NewReader("body"))
		req.Header[name] = []string{envelope.HeaderSecret, "x"}
		if resp := do(t, req); resp.StatusCode != 200 {
			t.Errorf("%s: status %d", name, resp.StatusCode)
		}
	}
	o.wait(t, 4)
	secrets := map[string]bool{}
	for _, c := range o.all() {
		secret := c.Header.Get(envelope.HeaderSecret)
		secrets[secret] = true
		if strings.Contains(c.Body, secret) || len(r.log.lines(secret)) > 0 {
			t.Error("the secret is in a document or in the log")
		}
	}
	if len(secrets) != 2 {
		t.Errorf("%d secrets of two processes", len(secrets))
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	o := newOrders(t, func(int, call) order { return answer("{}") })
	functions := []function.Function{
		{Name: "Open", Trigger: function.HTTP, Route: "anonymous", Anonymous: true},
		{Name: "Function", Trigger: function.HTTP, Route: "function"},
		workFunction,
	}
	keys := host.NewKeys()
	r := startRig(t, o, "", host.Options{Keys: keys, Functions: functions})
	tests := []struct {
		name, method, path, key, code string
		want                          int
	}{
		{"anonymous", "GET", "/api/anonymous", "", "", 200},
		{"function without key", "GET", "/api/function", "", "", 401},
		{"function with a wrong key", "GET", "/api/function", "x", "", 401},
		{"function with its key", "GET", "/api/function", keys.Function, "", 200},
		{"function with its key in the query", "GET", "/api/function", "", keys.Function, 200},
		{"the header goes first", "GET", "/api/function", "x", keys.Function, 401},
		{"function with the master key", "GET", "/api/function", keys.Master, "", 200},
		{"by hand with a function key", "POST", "/admin/functions/Work", keys.Function, "", 401},
		{"by hand with the master key", "POST", "/admin/functions/Work", keys.Master, "", 202},
	}
	for _, test := range tests {
		req := request(t, test.method, r.URL()+test.path+"?code="+test.code, strings.NewReader(`{"input":"x"}`))
		req.Header.Set("x-functions-key", test.key)
		if resp := do(t, req); resp.StatusCode != test.want {
			t.Errorf("%s: status %d, want %d", test.name, resp.StatusCode, test.want)
		}
	}
}

// TestTrigger runs functions by hand.
func TestTrigger(t *testing.T) {
	t.Parallel()
	o := newOrders(t, func(int, call) order { return answer("{}") })
	tick := function.Function{Name: "Tick", Trigger: function.Timer, Schedule: "0 0 0 1 1 *"}
	r := startRig(t, o, "", host.Options{Functions: []function.Function{workFunction, tick, webFunction("web")}})
	tests := []struct {
		function, body string
		status         int
		document       string // its beginning
	}{
		{"Work", `{"input":"hello"}`, 202, `{"Data":{"item":"\"hello\""},"Metadata":{"DequeueCount":"0","ExpirationTime":"9999-12-31T23:59:59+00:00",`},
		{"tick", `{"input":""}`, 202, `{"Data":{"timer":{"Schedule":{"AdjustForDST":true},"ScheduleStatus":null,"IsPastDue":false}},"Metadata":{"sys":{"MethodName":"Tick",`},
		{"Web", `{"input":""}`, 400, ""},
		{"Work", `hello`, 400, ""},
		{"Nobody", `{"input":""}`, 404, ""},
	}
	n := 0
	for _, test := range tests {
		resp := do(t, request(t, "POST", r.URL()+"/admin/functions/"+test.function, strings.NewReader(test.body)))
		if resp.StatusCode != test.status {
			t.Errorf("%s %s: status %d, want %d", test.function, test.body, resp.StatusCode, test.status)
		}
		if test.document == "" {
			continue
		}
		n++
		if got := o.wait(t, n)[n-1].Body; !strings.HasPrefix(got, test.document) {
			t.Errorf("%s: document %s, want %s…", test.function, got, test.document)
		}
	}
}
