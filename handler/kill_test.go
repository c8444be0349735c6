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
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tablesweep/internal/local/emulator"
	"tablesweep/internal/place"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
)

// gate is a proxy between a process and a table account. After the process has done enough work, its requests wait until it is killed, so it cannot end
// before that.
type gate struct {
	connection string
	life       atomic.Pointer[life] // nil while no process is to be killed
}

// life is the time of a process until it is killed.
type life struct {
	mu     sync.Mutex
	lived  func() bool // reports whether the process has lived long enough, called with each request; guarded by mu
	killed chan struct{}
}

func (l *life) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lived()
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
		if l := g.life.Load(); l != nil && l.over() {
			<-l.killed
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	g.connection = strings.Replace(connection, endpoint, server.URL+to.Path, 1)
	return g
}

// command returns a command of the program, with files of 20 KB in exports, whose requests pass the gate.
func (g *gate) command(args ...string) *exec.Cmd {
	c := exec.Command("smalltablesweep", append(args, "--progress", "none", "--json")...)
	c.Env = append(os.Environ(), "AzureWebJobsStorage="+g.connection)
	return c
}

// kill starts a command, and kills it when `lived` returns true.
func (g *gate) kill(t *testing.T, lived func() bool, args ...string) {
	t.Helper()
	l := &life{lived: lived, killed: make(chan struct{})}
	g.life.Store(l)
	c := g.command(args...)
	proof.Must(t, c.Start())
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }() // ends with the process
	for !l.over() {
		select {
		case err := <-ended:
			t.Fatalf("%v ended before it was killed: %v", c.Args, err)
		case <-time.After(time.Millisecond): // the program's own time does not include the other process
		}
	}
	_ = c.Process.Kill()
	<-ended
	g.life.Store(nil)
	close(l.killed)
}

// TestKilledCopy kills a copy and its resumes. Each row must be copied, and counted once.
func TestKilledCopy(t *testing.T) {
	t.Parallel()
	em, a, connection := serveEmulator(t, emulator.Options{})
	g := newGate(t, connection)
	partitions, kills := testsize.Of(300, 3000), testsize.Of(2, 8)
	rows := manyRows(partitions, 4)
	emulatortest.Table(t, a, "source", rows)
	em.ResetCounts()
	checkpoint := filepath.Join(t.TempDir(), "checkpoint")
	args := []string{"copy", "--from", "source", "--to", "copied", "--checkpoint", checkpoint}
	for i := range kills {
		g.kill(t, func() bool { return em.Counts().Batch >= int64((i+1)*partitions/(kills+1)) }, args...)
		args = []string{"copy", "--resume", checkpoint}
	}
	out, err := g.command(args...).Output()
	var r jobResult
	if err != nil || json.Unmarshal(out, &r) != nil || r.Rows != int64(len(rows)) || r.Written != r.Rows || r.Failed > 0 {
		t.Errorf("the copy counted %s, %v; want %d rows", out, err, len(rows))
	}
	sameRows(t, a, "copied", len(rows))
}

// TestKilledExport kills an export and its resumes. The files must equal those of an export without kills.
func TestKilledExport(t *testing.T) {
	t.Parallel()
	_, a, connection := serveEmulator(t, emulator.Options{Faults: "short-page p=1 rows=20"})
	g := newGate(t, connection)
	emulatortest.Table(t, a, "source", manyRows(testsize.Of(300, 1000), 10))
	dir := t.TempDir()
	whole, pieces := filepath.Join(dir, "whole"), filepath.Join(dir, "pieces")
	if out, err := g.command("export", "--from", "source", "--to", whole).CombinedOutput(); err != nil {
		t.Fatalf("error %v; output: %s", err, out)
	}
	want := exported(t, place.Directory(whole))
	args, kills := []string{"export", "--from", "source", "--to", pieces}, testsize.Of(2, 8)
	for i := range kills {
		g.kill(t, func() bool {
			files, _ := filepath.Glob(filepath.Join(pieces, place.DataPrefix, "*"))
			return len(files)*(kills+1) >= (len(want)-1)*(i+1)
		}, args...)
		args = []string{"copy", "--resume", pieces} // an export to a directory is its own checkpoint
	}
	if out, err := g.command(args...).CombinedOutput(); err != nil {
		t.Fatalf("error %v; output: %s", err, out)
	}
	sameExport(t, want, exported(t, place.Directory(pieces)))
}

// sameExport compares the files of two exports.
func sameExport(t *testing.T, want, got map[string]string) {
	t.Helper()
	for name, text := range want {
		if got[name] != text {
			t.Errorf("the file %s differs", name)
		}
	}
	if len(want) < 5 || len(got) != len(want) {
		t.Errorf("%d files, want %d, and at least 5", len(got), len(want))
	}
}
