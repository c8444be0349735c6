package main

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"tablesweep/internal/proof"
)

// TestPprof requests a process's profiles, which must not include its command line.
func TestPprof(t *testing.T) {
	t.Parallel()
	addr, err := servePprof("127.0.0.1:0")
	proof.Must(t, err)
	for path, want := range map[string]int{"": 200, "heap": 200, "cmdline": 404, "goroutine?debug=1": 200} {
		resp, err := http.Get("http://" + addr.String() + "/debug/pprof/" + path)
		proof.Must(t, err)
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != want || len(body) == 0 {
			t.Errorf("%s: status %d, %d bytes, %v; want status %d", path, resp.StatusCode, len(body), err, want)
		}
	}
	for name, value := range map[string]string{"Host": "evil.example", "Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr.String()+"/debug/pprof/heap", nil)
		proof.Must(t, err)
		if r.Header.Set(name, value); name == "Host" {
			r.Host = value
		}
		resp, err := http.DefaultClient.Do(r)
		proof.Must(t, err)
		if resp.Body.Close(); resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s %s: got status %d", name, value, resp.StatusCode)
		}
	}
	for _, addr := range []string{"nowhere", "0.0.0.0:0", ":0", "[::]:0"} {
		c := rootCommand()
		c.SetArgs([]string{"version", "--pprof", addr})
		if err := c.Execute(); exitCode(err) != exitUsage || !strings.Contains(err.Error(), "--pprof") {
			t.Errorf("--pprof %s: got error %v", addr, err)
		}
	}
}
