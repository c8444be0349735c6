package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"tablesweep/internal/local/demo"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/split/strategy"
)

// TestDemoCommand runs the demonstration as a user does, and then opens the console.
func TestDemoCommand(t *testing.T) {
	testsize.InFull(t)
	t.Parallel()
	c := exec.CommandContext(t.Context(), "tablesweep", "demo", "--json", "--watch")
	var stderr buffer
	c.Dir, c.Stderr = "..", io.MultiWriter(&stderr, t.Output())
	out, err := c.StdoutPipe()
	proof.Must(t, err)
	proof.Must(t, c.Start())
	var r demo.Report
	if err := json.NewDecoder(out).Decode(&r); err != nil {
		_ = c.Wait()
		t.Fatal(err)
	}
	address := regexp.MustCompile(`watch it at (http://[^ ]+)/api/console/\n`).FindStringSubmatch(stderr.String())
	if address == nil {
		t.Fatal("stderr has no address of the console")
	}
	for path, want := range map[string]string{"/api/console/": "<!doctype html>", "/api/catalog/records?section=games": `"package"`, "/api/log/demo": `"loaded"`, "/api/scans": `"copy"`} {
		resp, err := http.Get(address[1] + path)
		proof.Must(t, err)
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("GET %s: %s %.300s %v, want %s", path, resp.Status, body, err, want)
		}
	}
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("after an interrupt: %v", err)
	}
	if !r.Verified || r.Rows != 63_666 || r.Partitions != 34_172 || r.Copy.Rows != 63_666 || len(r.Processes) < 2 {
		t.Errorf("report %+v", r)
	}
	if len(r.Strategies) != len(strategy.Names) {
		t.Errorf("%d strategies compared, want %d", len(r.Strategies), len(strategy.Names))
	}
	for _, s := range r.Strategies {
		if s.Rows != 63_666 || s.Queries < 64 {
			t.Errorf("strategy %+v", s)
		}
	}
}
