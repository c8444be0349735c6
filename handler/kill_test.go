package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tablesweep/internal/emulator"
	"tablesweep/internal/place"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
)

// gate is a process's way to a table account. Behind so many requests, the others wait until the process is killed: so it can't end before.
type gate struct {
	connection string
	left       atomic.Int64
	killed     atomic.Pointer[chan struct{}]
}

func newGate(t *testing.T, connection string) *gate {
	t.Helper()
	_, rest, _ := strings.Cut(connection, "TableEndpoint=")
	endpoint, _, _ := strings.Cut(rest, ";")
	to, err := url.Parse(endpoint)
	proof.Must(t, err)
	g := &gate{}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: to.Scheme, Host: to.Host})
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) {} // the process is dead
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if killed := g.killed.Load(); killed != nil && g.left.Add(-1) < 0 {
			<-*killed
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	g.connection = strings.Replace(connection, endpoint, server.URL+to.Path, 1)
	return g
}

// command is the program, whose exports have files of 20 KB, by way of the gate.
func (g *gate) command(args ...string) *exec.Cmd {
	c := exec.Command("smalltablesweep", append(args, "--progress", "none", "--json")...)
	c.Env = append(os.Environ(), "AzureWebJobsStorage="+g.connection)
	return c
}

// kill starts a command, and kills it behind so many requests.
func (g *gate) kill(t *testing.T, requests int64, args ...string) {
	t.Helper()
	killed := make(chan struct{})
	g.left.Store(requests)
	g.killed.Store(&killed)
	c := g.command(args...)
	proof.Must(t, c.Start())
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }() // ends with the process
	for g.left.Load() >= 0 {
		select {
		case err := <-ended:
			t.Fatalf("%v ended before it was killed: %v", c.Args, err)
		case <-time.After(time.Millisecond): // the other process is no part of this one's time
		}
	}
	time.Sleep(50 * time.Millisecond) // so that it notes what it has done
	_ = c.Process.Kill()
	<-ended
	g.killed.Store(nil)
	close(killed)
}

// TestKilledCopy kills a copy and its resumes. Each row must be there, and counted once.
func TestKilledCopy(t *testing.T) {
	t.Parallel()
	_, a, connection := serveEmulator(t, emulator.Options{})
	g := newGate(t, connection)
	partitions, kills := testsize.Of(300, 3000), testsize.Of(2, 8)
	rows := manyRows(partitions, 4)
	emulatortest.Table(t, a, "source", rows)
	checkpoint := filepath.Join(t.TempDir(), "checkpoint")
	args := []string{"copy", "--from", "source", "--to", "copied", "--checkpoint", checkpoint}
	for range kills {
		g.kill(t, int64(partitions/(kills+1)), args...)
		args = []string{"copy", "--resume", checkpoint}
	}
	out, err := g.command(args...).Output()
	var r jobResult
	if err != nil || json.Unmarshal(out, &r) != nil || r.Rows != int64(len(rows)) || r.Written != r.Rows || r.Failed > 0 {
		t.Errorf("it counted %s, %v; want %d rows", out, err, len(rows))
	}
	sameRows(t, a, "copied", len(rows))
}

// TestKilledExport kills an export and its resumes. The files must be those of an export without kills.
func TestKilledExport(t *testing.T) {
	t.Parallel()
	_, a, connection := serveEmulator(t, emulator.Options{Faults: "short-page p=1 rows=100"})
	g := newGate(t, connection)
	emulatortest.Table(t, a, "source", manyRows(testsize.Of(300, 3000), 10))
	dir := t.TempDir()
	whole, pieces := filepath.Join(dir, "whole"), filepath.Join(dir, "pieces")
	if out, err := g.command("export", "--from", "source", "--to", whole).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	args, kills := []string{"export", "--from", "source", "--to", pieces}, testsize.Of(2, 8)
	for range kills {
		g.kill(t, 12, args...)
		args = []string{"copy", "--resume", pieces} // an export to a directory is its own checkpoint
	}
	if out, err := g.command(args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	sameExport(t, exported(t, place.Directory(whole)), exported(t, place.Directory(pieces)))
}

// sameExport compares the files of two exports.
func sameExport(t *testing.T, want, got map[string]string) {
	t.Helper()
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s differs", name)
		}
	}
	if len(want) < 5 || len(got) != len(want) {
		t.Errorf("%d files, want %d, and at least 5", len(got), len(want))
	}
}
