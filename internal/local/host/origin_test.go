package host_test

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"tablesweep/internal/app/function"
	"tablesweep/internal/local/host"
	"tablesweep/internal/proof"
)

// TestKeysOnTheNetwork: an app that other machines can reach requires keys, even if no key was configured.
func TestKeysOnTheNetwork(t *testing.T) {
	t.Parallel()
	functions := []function.Function{{Name: "Web", Trigger: function.HTTP, Route: "web"}, workFunction}
	for _, addr := range []string{"0.0.0.0:0", ":0", "127.0.0.1:0"} {
		t.Run(addr, func(t *testing.T) {
			t.Parallel()
			o := newOrders(t, func(int, call) order { return answer("{}") })
			r := startRig(t, o, "", host.Options{Addr: addr, Functions: functions})
			made := r.Key() != ""
			if want := addr != "127.0.0.1:0"; made != want {
				t.Fatalf("the app's key is %q; want a key: %v", r.Key(), want)
			}
			for key, want := range map[string]bool{"": !made, "wrong": !made, r.Key() + "x": !made, r.Key(): true} {
				req := request(t, "GET", strings.NewReplacer("[::]", "127.0.0.1", "0.0.0.0", "127.0.0.1").Replace(r.URL())+"/api/web", nil)
				req.Header.Set("x-functions-key", key)
				if status := do(t, req).StatusCode; (status == http.StatusUnauthorized) == want {
					t.Errorf("with the key %q: status %d; want access: %v", key, status, want)
				}
			}
		})
	}
}

// TestForeignPages: an app without keys answers its own pages and programs on this machine. It refuses requests that other web pages can send, on every
// route.
func TestForeignPages(t *testing.T) {
	t.Parallel()
	functions := []function.Function{webFunction("web"), workFunction}
	tests := []struct {
		name, host, origin, site string // PORT is replaced by the app's port
		refused                  bool
	}{
		{"program", "", "", "", false},
		{"own page", "localhost:PORT", "http://localhost:PORT", "same-origin", false},
		{"own page by address", "127.0.0.1:PORT", "http://127.0.0.1:PORT", "same-origin", false},
		{"own page by address of version 6", "[::1]:PORT", "http://[::1]:PORT", "same-origin", false},
		{"typed address", "localhost:PORT", "", "none", false},
		{"tunnel from another port", "LocalHost:8080", "http://localhost:8080", "same-origin", false},
		{"another page", "127.0.0.1:PORT", "https://evil.example", "cross-site", true},
		{"another page, old browser", "127.0.0.1:PORT", "https://evil.example", "", true},
		{"another page, no Origin", "127.0.0.1:PORT", "", "cross-site", true},
		{"another port", "localhost:PORT", "http://localhost:1234", "same-site", true},
		{"another port, old browser", "localhost:PORT", "http://localhost:1234", "", true},
		{"another port, no Origin", "localhost:PORT", "", "same-site", true},
		{"another name of this machine", "localhost:PORT", "http://127.0.0.1:PORT", "", true},
		{"sandboxed page", "127.0.0.1:PORT", "null", "cross-site", true},
		{"file", "127.0.0.1:PORT", "null", "", true},
		{"another scheme", "127.0.0.1:PORT", "https://127.0.0.1:PORT", "", true},
		{"rebound name", "evil.example:PORT", "http://evil.example:PORT", "same-origin", true},
		{"rebound name, typed by the user", "evil.example:PORT", "", "none", true},
		{"rebound name, old browser", "evil.example", "", "", true},
		{"name that begins like ours", "localhost.evil.example:PORT", "", "", true},
		{"address of another machine", "10.1.2.3:PORT", "", "", true},
		{"unused address", "0.0.0.0:PORT", "", "", true},
	}
	try := func(t *testing.T, o *orders, r *rig, key string) {
		t.Helper()
		_, port, err := net.SplitHostPort(strings.TrimPrefix(r.URL(), "http://"))
		proof.Must(t, err)
		own := strings.NewReplacer("PORT", port)
		for _, test := range tests {
			for _, target := range []string{"POST /api/web", "GET /api/web", "DELETE /api/web", "GET /"} {
				method, path, _ := strings.Cut(target, " ")
				req := request(t, method, r.URL()+path, strings.NewReader(`{"input":"x"}`))
				req.Header.Set("Content-Type", "text/plain")
				req.Host = own.Replace(test.host)
				for name, value := range map[string]string{"Origin": own.Replace(test.origin), "Sec-Fetch-Site": test.site, "x-functions-key": key} {
					if value != "" {
						req.Header.Set(name, value)
					}
				}
				before := len(o.all())
				resp := do(t, req)
				refused := test.refused && key == ""
				if (resp.StatusCode == http.StatusForbidden) != refused {
					t.Errorf("%s, %s: status %d %q, refused: want %v", target, test.name, resp.StatusCode, resp.text, refused)
				}
				if refused && slices.ContainsFunc(o.all()[before:], func(c call) bool { return c.URI == path }) {
					t.Errorf("%s, %s: the handler was called", target, test.name)
				}
			}
		}
	}
	for _, key := range []string{"", host.NewKey()} {
		t.Run(fmt.Sprintf("key %v", key != ""), func(t *testing.T) {
			t.Parallel()
			o := newOrders(t, func(int, call) order { return answer("{}") })
			try(t, o, startRig(t, o, "", host.Options{Key: key, Functions: functions}), key)
		})
	}
}
