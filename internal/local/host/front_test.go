package host_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"tablesweep/internal/app/envelope"
	"tablesweep/internal/app/function"
	"tablesweep/internal/local/host"
	"tablesweep/internal/proof"
)

// response is a response whose body was read.
type response struct {
	*http.Response
	text string
}

func do(t *testing.T, r *http.Request) response {
	t.Helper()
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(r)
	proof.Must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	proof.Must(t, err)
	return response{resp, string(text)}
}

func request(t *testing.T, method, url string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	proof.Must(t, err)
	return r
}

// post sends a request with a body, so that the client does not repeat it.
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

func TestProxy(t *testing.T) {
	t.Parallel()
	o := newOrders(t, func(_ int, c call) order {
		return order{Status: 302, Header: map[string]string{"Location": "/elsewhere", "X-Own": "1"}, Body: "got " + c.Body}
	})
	r := startRig(t, o, "", host.Options{Functions: []function.Function{webFunction("things/{*rest}")}})
	req := withHeader(withHeader(request(t, "PATCH", r.URL()+"/API/Things/a/b?x=1&y=%26", chunked("body")), "X-Mine", "2"), "User-Agent", "curl/8")
	resp := do(t, req)
	if resp.StatusCode != 302 || resp.Header.Get("Location") != "/elsewhere" || resp.Header.Get("X-Own") != "1" || resp.text != "got body" {
		t.Errorf("the answer has status %d, header %v and body %q", resp.StatusCode, resp.Header, resp.text)
	}
	c := o.all()[0]
	if c.Method != "PATCH" || c.URI != "/API/Things/a/b?x=1&y=%26" || c.Header.Get("X-Azure-Functions-InvocationId") == "" || c.Header.Get("X-Mine") != "2" ||
		c.Header.Get("User-Agent") != "curl/8" || c.Header.Get("Accept-Encoding") != "gzip" {
		t.Errorf("the handler got %+v", c)
	}
	req = withHeader(request(t, "POST", r.URL()+"/api/things", strings.NewReader("body")), "X-Forwarded-For", "7.7.7.7")
	do(t, withHeader(withHeader(req, "Origin", r.URL()), "Sec-Fetch-Site", "same-origin"))
	c = o.all()[1]
	if c.Header.Get("Origin") != r.URL() || c.Header.Get("Sec-Fetch-Site") != "same-origin" { // so that the handler can refuse the pages of other sites
		t.Errorf("the handler got headers %v", c.Header)
	}
	if !strings.HasPrefix(c.Host, "127.0.0.1:") || "http://"+c.Host == r.URL() || "http://"+c.Header.Get("X-Forwarded-Host") != r.URL() ||
		c.Header.Get("X-Forwarded-Proto") != "http" || c.Header.Get("X-Forwarded-For") != "127.0.0.1" {
		t.Errorf("the handler got host %s and headers %v", c.Host, c.Header)
	}
	before := len(o.all())
	for _, path := range []string{"/things", "/", "/admin/host/status", "/api", "/Work"} {
		if resp := do(t, request(t, "POST", r.URL()+path, nil)); resp.StatusCode != 404 || len(o.all()) > before {
			t.Errorf("%s: status %d, want 404, and no request to the handler", path, resp.StatusCode)
		}
	}
}

// TestSecret: each process has its own secret, which the host adds to every request, whatever the caller sends. The handlers of all tests fail without the
// secret.
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
			t.Errorf("the request %s: status %d", name, resp.StatusCode)
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
		t.Errorf("got %d secrets from two processes, want 2", len(secrets))
	}
}

func TestKeys(t *testing.T) {
	t.Parallel()
	o := newOrders(t, func(int, call) order { return answer("{}") })
	functions := []function.Function{
		{Name: "Open", Trigger: function.HTTP, Route: "open/{file?}", Anonymous: true},
		{Name: "Function", Trigger: function.HTTP, Route: "function"},
		workFunction,
	}
	key := host.NewKey()
	r := startRig(t, o, "", host.Options{Key: key, Functions: functions})
	for _, tt := range []struct {
		name, path, key, code string
		want                  int
	}{
		{"the console", "/api/open", "", "", 200},
		{"the console's files, in any case", "/API/Open/x.js", "", "", 200},
		{"a path that begins like the console's", "/api/opens", "", "", 401},
		{"the console, escaped", "/api/%6Fpen", "", "", 401},
		{"without a key", "/api/function", "", "", 401},
		{"with a wrong key", "/api/function", "x", "", 401},
		{"with the key", "/api/function", key, "", 200},
		{"with the key in the query", "/api/function", "", key, 200},
		{"the header takes precedence", "/api/function", "x", key, 401},
	} {
		req := request(t, "POST", r.URL()+tt.path+"?code="+tt.code, strings.NewReader("{}"))
		req.Header.Set("x-functions-key", tt.key)
		if resp := do(t, req); resp.StatusCode != tt.want {
			t.Errorf("%s: status %d, want %d", tt.name, resp.StatusCode, tt.want)
		}
	}
}
