package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"tablesweep/internal/engine"
	"tablesweep/internal/scan/strategy"
	"tablesweep/internal/testsize"
)

const root = "../.."

// handler is the program, built once for all tests.
var handler string

func TestMain(m *testing.M) {
	if testsize.Race {
		// The storage and the host are in this process and would take ten times as long,
		// while the handler's processes would not be watched at all. Their packages have
		// tests of their own.
		fmt.Println("SKIPPED under the race detector; scripts/test.sh runs this package without")
		return
	}
	dir, err := os.MkdirTemp("", "demo")
	if err == nil {
		handler = filepath.Join(dir, "handler")
		c := exec.Command("go", "build", "-o", handler, root+"/handler")
		c.Stderr = os.Stderr
		err = c.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build the handler:", err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// TestDemoCommand runs the demonstration as its user does, who then looks at the console.
func TestDemoCommand(t *testing.T) {
	t.Parallel()
	c := exec.CommandContext(t.Context(), handler, "demo", "--json", "--watch")
	told := &heard{}
	c.Dir, c.Stderr = root, io.MultiWriter(told, testWriter{t})
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var r Report
	if err := json.NewDecoder(out).Decode(&r); err != nil {
		_ = c.Wait()
		t.Fatal(err)
	}
	address := regexp.MustCompile(`watch it at (http://[^ ]+)/api/console/\n`).FindStringSubmatch(told.text())
	if address == nil {
		t.Fatal("no address of the console was told")
	}
	for path, want := range map[string]string{"/api/console/": "<!doctype html>", "/api/catalog/records?section=games": `"package"`, "/api/log/demo": `"loaded"`, "/api/scans": `"copy"`} {
		resp, err := http.Get(address[1] + path)
		if err != nil {
			t.Fatal(err)
		}
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

// TestCopyOnAzurite copies the same rows on the other emulator.
func TestCopyOnAzurite(t *testing.T) {
	t.Parallel()
	connection := os.Getenv("TABLESWEEP_AZURITE")
	if connection == "" {
		t.Skip("SKIPPED: TABLESWEEP_AZURITE has no connection string; scripts/test.sh starts Azurite and sets it")
	}
	d := &demo{
		Options: Options{Root: root, Executable: handler, Instances: 2, Connection: connection, Progress: testWriter{t}, Log: zerolog.Nop()},
		watch:   func(engine.Status) {},
	}
	stop, err := d.start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if err := d.copy(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestCopyWhileProcessesAreKilled kills handler processes with SIGKILL at random
// moments of a copy, which must still be exact. None is killed three times: that would
// end its instance.
func TestCopyWhileProcessesAreKilled(t *testing.T) {
	t.Parallel()
	const kills = 6
	r := rand.New(rand.NewPCG(rand.Uint64(), 1))
	d := &demo{Options: Options{Root: root, Executable: handler, Instances: 3, Progress: testWriter{t}, Log: zerolog.Nop()}}
	killed, next := 0, int64(1)
	d.watch = func(s engine.Status) {
		if killed < kills && s.Steps.Done >= next && s.State == "running" {
			if instance := killed % 3; d.host.Kill(instance) {
				t.Logf("killed process %d after %d steps", instance, s.Steps.Done)
				killed++
				next = s.Steps.Done + 1 + r.Int64N(25)
			}
		}
	}
	stop, err := d.start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if err := d.copy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if killed < kills/2 {
		t.Errorf("only %d processes were killed", killed)
	}
}

// testWriter shows what is written in the test's log.
type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Logf("%s", b)
	return len(b), nil
}

// heard is what a process has written so far.
type heard struct {
	mu sync.Mutex // guards b
	b  strings.Builder
}

func (h *heard) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.b.Write(p)
}

func (h *heard) text() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.b.String()
}
