package demo

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"testing"

	"tablesweep/internal/engine"
	"tablesweep/internal/function/server"
	"tablesweep/internal/scan/strategy"
	"tablesweep/internal/testsize"
)

const root = "../.."

// portVariable is how the host tells a handler where to listen.
const portVariable = "FUNCTIONS_CUSTOMHANDLER_PORT"

// TestMain runs the tests. Their handler processes are this program, too.
func TestMain(m *testing.M) {
	if os.Getenv(portVariable) != "" {
		fmt.Fprintln(os.Stderr, server.Serve(context.Background(), os.Getenv, os.Stdout, os.Stderr))
		os.Exit(server.RestartCode)
	}
	os.Exit(m.Run())
}

// newDemo returns a demonstration of some of the rows, which polls more often.
func newDemo(t *testing.T, instances, rows int) *demo {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &demo{
		Options: Options{Root: root, Executable: self, Instances: instances, Progress: t.Output()},
		watch:   func(engine.Status) {},
		most:    rows,
		more: map[string]string{
			"AzureFunctionsJobHost__extensions__queues__maxPollingInterval": "00:00:00.1",
			"AzureFunctionsJobHost__extensions__queues__visibilityTimeout":  "00:00:01",
		},
	}
}

// TestDemo runs the demonstration, and then looks at what the app shows its user. The program's
// own test runs the command, with all rows.
func TestDemo(t *testing.T) {
	t.Parallel()
	const rows = 3000
	d := newDemo(t, 3, rows)
	watched := false
	d.Watch = func(Report) {
		watched = true
		for path, want := range map[string]string{"/api/console/": "<!doctype html>", "/api/catalog/records?section=games": `"package"`, "/api/log/demo": `"loaded"`, "/api/scans": `"copy"`} {
			resp, err := http.Get(d.host.URL() + path)
			if err != nil {
				t.Error(err)
				continue
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
				t.Errorf("GET %s: %s %.300s %v, want %s", path, resp.Status, body, err, want)
			}
		}
	}
	r, err := d.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !watched || !r.Verified || r.Rows != rows || r.Copy.Rows != rows || len(r.Processes) != 3 {
		t.Errorf("watched %v, report %+v", watched, r)
	}
	if len(r.Strategies) != len(strategy.Names) {
		t.Errorf("%d strategies compared, want %d", len(r.Strategies), len(strategy.Names))
	}
	for _, s := range r.Strategies {
		if s.Rows != rows || s.Queries < 3 {
			t.Errorf("strategy %+v", s)
		}
	}
}

// startAndCopy starts the app, which copies the table.
func (d *demo) startAndCopy(t *testing.T) {
	t.Helper()
	stop, err := d.start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if err := d.copy(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestCopyOnAzurite copies the same rows on the other emulator.
func TestCopyOnAzurite(t *testing.T) {
	t.Parallel()
	connection := os.Getenv("TABLESWEEP_AZURITE")
	if connection == "" {
		t.Skip("SKIPPED: TABLESWEEP_AZURITE has no connection string; scripts/test.sh starts Azurite and sets it")
	}
	d := newDemo(t, 2, testsize.Of(3000, 0))
	d.Connection = connection
	d.startAndCopy(t)
}

// TestCopyWhileProcessesAreKilled kills handler processes with SIGKILL at random
// moments of a copy, which must still be exact. None is killed three times: that would
// end its instance.
func TestCopyWhileProcessesAreKilled(t *testing.T) {
	t.Parallel()
	kills := testsize.Of(2, 6)
	r := rand.New(rand.NewPCG(rand.Uint64(), 1))
	d := newDemo(t, 3, testsize.Of(10_000, 0))
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
	d.startAndCopy(t)
	if killed < kills/2 {
		t.Errorf("only %d processes were killed", killed)
	}
}
