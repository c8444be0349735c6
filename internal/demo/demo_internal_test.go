package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"tablesweep/internal/action"
	"tablesweep/internal/emulator/emulatortest"
	"tablesweep/internal/engine"
	"tablesweep/internal/function/server"
	"tablesweep/internal/key"
	"tablesweep/internal/scan/strategy"
	"tablesweep/internal/storage"
	"tablesweep/internal/testsize"
)

const root = "../.."

// portVariable is how the host tells a handler where to listen.
const portVariable = "FUNCTIONS_CUSTOMHANDLER_PORT"

// TestMain runs the tests. Their handler processes are this program, too.
func TestMain(m *testing.M) {
	if os.Getenv(portVariable) != "" {
		fmt.Fprintln(os.Stderr, server.Serve(context.Background(), storage.SettingsOf(os.Environ()), os.Stdout, os.Stderr))
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

// startAndCopy starts the app until the test ends, and has it copy the table.
func (d *demo) startAndCopy(t *testing.T) {
	t.Helper()
	stop, err := d.start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	if err := d.copy(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestOnAzurite copies the same rows on the other emulator, and exports and imports odd ones there.
func TestOnAzurite(t *testing.T) {
	t.Parallel()
	connection := os.Getenv("TABLESWEEP_AZURITE")
	if connection == "" {
		t.Skip("SKIPPED: TABLESWEEP_AZURITE has no connection string; scripts/test.sh starts Azurite and sets it")
	}
	d := newDemo(t, 2, testsize.Slow(3000, 10_000, 0))
	d.Connection = connection
	d.startAndCopy(t)
	// Azurite takes "'," for a key's end, and cuts characters of a long request apart.
	rows := slices.DeleteFunc(emulatortest.NastyRows(testsize.Slow(500, 2000, 8833)), func(e storage.Entity) bool {
		return strings.Contains(e.Key.Partition+e.Key.Row, "',") || e.Key.Row == "all"
	})
	d.fill(t, "nasty", rows)
	d.exportAndImport(t, "nasty", len(rows), testsize.Slow(1, 2, 4))
}

// TestCopyWhileProcessesAreKilled kills handler processes with SIGKILL at random
// moments of a copy, which must still be exact. None is killed three times: that would
// end its instance for 3 s.
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

// TestFailedRowsAreDoneAgain has three processes do failed rows again once the cause is mended, and kills one of them meanwhile: each row counts
// once, and the tables are equal.
func TestFailedRowsAreDoneAgain(t *testing.T) {
	t.Parallel()
	d := newDemo(t, 3, 3000)
	stop, err := d.start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	target := d.account.Table(destinationTable)
	if err := target.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	var taken []key.Key // every tenth row's key
	n := 0
	err = d.account.Table(sourceTable).All(t.Context(), storage.Query{Select: []string{}}, func(p storage.Page) error {
		for _, e := range p.Entities {
			if n++; n%10 == 0 {
				taken = append(taken, e.Key)
			}
		}
		return nil
	})
	b := target.Batch()
	for i, k := range taken {
		op := storage.Op{Entity: storage.Entity{Key: k}}
		if err == nil && (i > 0 && taken[i-1].Partition != k.Partition || !b.Add(op)) {
			err = b.Do(t.Context())
			b = target.Batch()
			b.Add(op)
		}
	}
	if err = errors.Join(err, b.Do(t.Context())); err != nil {
		t.Fatal(err)
	}
	ended := func(at string) (s engine.Status) {
		for s.State = "running"; s.State == "running"; time.Sleep(50 * time.Millisecond) {
			if err := d.call(t.Context(), "GET", at, nil, http.StatusOK, &s); err != nil {
				t.Fatal(err)
			}
		}
		return s
	}
	var started struct{ ID string }
	err = d.call(t.Context(), "POST", "/api/scans", engine.Request{
		Source: engine.TableRef{Table: sourceTable}, SegmentSize: 20,
		Action: engine.Action{Type: engine.Copy, Mode: action.Fail, Destination: &engine.TableRef{Table: destinationTable}},
	}, http.StatusAccepted, &started)
	if err != nil {
		t.Fatal(err)
	}
	at := "/api/scans/" + started.ID
	if s := ended(at); s.State != "failed" || s.Rows.Failed != int64(len(taken)) || s.Rows.Written != int64(n-len(taken)) {
		t.Fatalf("%+v, want %d of %d rows failed", s, len(taken), n)
	}
	for _, k := range taken {
		if err := target.Write(t.Context(), storage.Op{Kind: storage.Delete, Entity: storage.Entity{Key: k}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.call(t.Context(), "POST", at+"/retry", map[string]string{"rows": "failed"}, http.StatusAccepted, &started); err != nil {
		t.Fatal(err)
	}
	killed := false
	for range 100 {
		if killed = d.host.Kill(1); killed {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if s := ended(at); !killed || s.State != "succeeded" || s.Rows.Scanned != int64(n) || s.Rows.Written != int64(n) || s.Rows.Failed != 0 || s.Steps.Pending != 0 {
		t.Errorf("killed %v, then %+v, want %d rows written", killed, s, n)
	}
	if err := d.verify(t.Context()); err != nil || !d.report.Verified {
		t.Errorf("%v, %+v", err, d.report)
	}
}
