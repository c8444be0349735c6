package demo

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"tablesweep/internal/app/server"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/split/strategy"
	"tablesweep/internal/storage"
)

const root = "../../.."

// portVariable is the variable in which the host passes a handler's port.
const portVariable = "FUNCTIONS_CUSTOMHANDLER_PORT"

// TestMain runs the tests. Their handler processes run this test program.
func TestMain(m *testing.M) {
	if os.Getenv(portVariable) != "" {
		fmt.Fprintln(os.Stderr, server.Serve(context.Background(), storage.SettingsOf(os.Environ()), os.Stdout, os.Stderr))
		os.Exit(server.RestartCode)
	}
	os.Exit(m.Run())
}

// newDemo returns a demonstration with some of the rows and more frequent polling.
func newDemo(t *testing.T, instances, rows int) *demo {
	t.Helper()
	self, err := os.Executable()
	proof.Must(t, err)
	return &demo{
		Options: Options{Root: root, Executable: self, Instances: instances, Progress: t.Output()},
		most:    rows,
		more: map[string]string{
			"AzureFunctionsJobHost__extensions__queues__maxPollingInterval": "00:00:00.1",
			"AzureFunctionsJobHost__extensions__queues__visibilityTimeout":  "00:00:01",
		},
	}
}

// TestDemo runs the demonstration, and then requests what the app shows to its user. A test of the program runs the command with all rows.
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
	proof.Must(t, err)
	if !watched || !r.Verified || r.Rows != rows || r.Copy.Rows != rows || len(r.Processes) != 3 {
		t.Errorf("watched: %v, want true; report %+v", watched, r)
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

// startAndCopy starts the app until the test ends, and copies the table with it.
func (d *demo) startAndCopy(t *testing.T) {
	t.Helper()
	stop, err := d.start(t.Context())
	proof.Must(t, err)
	t.Cleanup(stop)
	proof.Must(t, d.copy(t.Context()))
}

// TestOnAzurite copies the same rows on the other emulator, and exports and imports unusual rows there.
func TestOnAzurite(t *testing.T) {
	t.Parallel()
	connection := os.Getenv("TABLESWEEP_AZURITE")
	if connection == "" {
		t.Skip("SKIPPED: TABLESWEEP_AZURITE has no connection string; scripts/test.sh starts Azurite and sets it")
	}
	d := newDemo(t, 2, testsize.Slow(3000, 10_000, 0))
	d.Connection = connection
	d.startAndCopy(t)
	// Azurite mistakes "'," for the end of a key, and splits characters of a long request.
	rows := slices.DeleteFunc(emulatortest.NastyRows(testsize.Slow(500, 2000, 8833)), func(e storage.Entity) bool {
		return strings.Contains(e.Key.Partition+e.Key.Row, "',") || e.Key.Row == "all"
	})
	d.fill(t, "nasty", rows)
	d.exportAndImport(t, "nasty", len(rows), testsize.Slow(1, 2, 4))
}
