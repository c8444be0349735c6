package main

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestPprof asks a process for its profiles, which must not have its command line.
func TestPprof(t *testing.T) {
	t.Parallel()
	addr, err := servePprof("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"": 200, "heap": 200, "cmdline": 404, "goroutine?debug=1": 200} {
		resp, err := http.Get("http://" + addr.String() + "/debug/pprof/" + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != want || len(body) == 0 {
			t.Errorf("%s: status %d, %d bytes, %v; want status %d", path, resp.StatusCode, len(body), err, want)
		}
	}
	c := rootCommand()
	c.SetArgs([]string{"version", "--pprof", "nowhere"})
	if err := c.Execute(); exitCode(err) != exitUsage || !strings.Contains(err.Error(), "--pprof") {
		t.Errorf("an address that is none: %v", err)
	}
}
