package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
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

	"tablesweep/internal/emulator"
	"tablesweep/internal/place"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/storage"
)

// gate is a process's way to storage. Once the process's work has come so far, its requests wait until it is killed: so
// it can't end before.
type gate struct {
	connection string
	batches    atomic.Int64 // requests that wrote rows
	manifests  atomic.Int64 // requests that completed an export in blobs

	mu     sync.Mutex
	until  func() bool   // guarded by mu
	killed chan struct{} // the same
}

func newGate(t *testing.T, connection string) *gate {
	g := &gate{}
	for part := range strings.SplitSeq(connection, ";") {
		name, endpoint, _ := strings.Cut(part, "=")
		if name == "TableEndpoint" || name == "BlobEndpoint" {
			to, err := url.Parse(endpoint)
			proof.Must(t, err)
			proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: to.Scheme, Host: to.Host})
			proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) {} // the process is dead
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				g.mu.Lock()
				killed, held := g.killed, g.until != nil && g.until()
				switch { // while nobody else asks: no more of them pass than until lets
				case held:
				case strings.HasSuffix(r.URL.Path, "$batch"):
					g.batches.Add(1)
				case r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, place.ManifestName):
					g.manifests.Add(1)
				}
				g.mu.Unlock()
				if held {
					<-killed
					return
				}
				proxy.ServeHTTP(w, r)
			}))
			t.Cleanup(server.Close)
			part = name + "=" + server.URL + to.Path
		}
		g.connection += part + ";"
	}
	return g
}

// kill starts a command and kills it when its work has come so far.
func (g *gate) kill(t *testing.T, c *exec.Cmd, done func() bool) {
	t.Helper()
	g.mu.Lock()
	killed := make(chan struct{})
	g.until, g.killed = done, killed
	g.mu.Unlock()
	proof.Must(t, c.Start())
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }() // ends with the process
	for !done() {
		select {
		case err := <-ended:
			t.Fatalf("%v ended before it was killed: %v", c.Args, err)
		case <-time.After(time.Millisecond): // the other process is no part of this one's time
		}
	}
	_ = c.Process.Kill()
	<-ended
	g.mu.Lock()
	g.until = nil
	g.mu.Unlock()
	close(killed)
}

// killed is a table whose exports and imports are killed.
type killed struct {
	partitions, each int    // rows of each
	exports, kills   int    // of each export
	unique           string // ends the names of what is made
}

// TestKilledExport kills exports and their imports many times. The files must equal those of an export without kills, and
// the rows those of the table. Partitions of many pages fill several files each: a resume goes on within one.
func TestKilledExport(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	few := testsize.Slow(2, 3, 20)
	const slow = "latency=20ms on=query table=source" // so that workers are idle, and steal
	for name, k := range map[string]killed{
		"small partitions": {partitions: testsize.Slow(300, 1000, 6000), each: 10, exports: 1, kills: few},
		"large partitions": {partitions: 6, each: testsize.Slow(2500, 4000, 6000), exports: testsize.Slow(1, 1, 25), kills: 2}, // a run must get beyond the partition it begins in
	} {
		for _, to := range []string{"directory", "blobs"} {
			if !testsize.Full() && (to == "blobs" || name == "large partitions") {
				continue
			}
			t.Run(name+" to "+to, func(t *testing.T) {
				t.Parallel()
				_, a, connection := serveEmulator(t, emulator.Options{Faults: slow})
				k.export(t, a, connection, to == "blobs")
			})
		}
	}
	t.Run("azurite", func(t *testing.T) {
		t.Parallel()
		a, connection := azurite(t)
		killed{testsize.Slow(300, 400, 1200), 10, 1, few, strings.ToLower("x" + rand.Text())}.export(t, a, connection, true)
	})
}

// azurite opens Azurite's account.
func azurite(t *testing.T) (*storage.Account, string) {
	t.Helper()
	connection := os.Getenv("TABLESWEEP_AZURITE")
	if connection == "" {
		t.Skip("SKIPPED: TABLESWEEP_AZURITE has no connection string; scripts/test.sh starts Azurite and sets it")
	}
	return accountOf(t, connection), connection
}

func (k killed) export(t *testing.T, a *storage.Account, connection string, blobs bool) {
	g := newGate(t, connection)
	rows := manyRows(k.partitions, k.each)
	source, back := "source"+k.unique, "back"+k.unique
	emulatortest.Table(t, a, source, rows)
	command := func(args ...string) *exec.Cmd {
		c := exec.Command("smalltablesweep", append(args, "--progress", "none", "--json")...)
		c.Env = append(os.Environ(), "AzureWebJobsStorage="+g.connection)
		return c
	}
	run := func(args ...string) string {
		t.Helper()
		var said strings.Builder
		c := command(args...)
		c.Stderr = &said
		out, err := c.Output()
		if err != nil {
			t.Fatalf("%v: %v\n%s%s", args, err, out, &said)
		}
		return string(out)
	}
	dir := t.TempDir()
	at := func(name string) (path string, objects place.Objects) {
		if path = filepath.Join(dir, name); !blobs {
			return path, place.Directory(path)
		}
		in, err := place.InContainer(a, "backups"+k.unique, name)
		proof.Must(t, err)
		return "blob:backups" + k.unique + "/" + name, in
	}
	whole, wholeObjects := at("whole")
	run("export", "--from", source, "--to", whole, "--workers", "3")
	want := exported(t, wholeObjects)
	if len(want) < 2*k.kills {
		t.Fatalf("only %d files", len(want))
	}

	pieces := ""
	for n := range k.exports {
		var objects place.Objects
		pieces, objects = at(fmt.Sprint("pieces", n))
		// An export to a directory is its own checkpoint.
		checkpoint := filepath.Join(dir, fmt.Sprint("export.ckpt", n))
		args, again := []string{"export", "--from", source, "--to", pieces}, []string{"copy", "--resume", pieces}
		if blobs {
			args, again = append(args, "--checkpoint", checkpoint), []string{"copy", "--resume", checkpoint}
		}
		for i := range k.kills {
			g.kill(t, command(args...), func() bool {
				files := 0
				_ = objects.List(t.Context(), place.DataPrefix, func(string, int64) error { // there may be no container yet
					files++
					return nil
				})
				return files*(k.kills+1)*k.exports >= (len(want)-1)*(i*k.exports+n+1)
			})
			args = again
		}
		run(args...)
		sameExport(t, want, exported(t, objects))
	}
	k.importAgain(t, g, command, pieces, back)
	run("verify", "--from", source, "--to", back)
	run("verify", "--from", pieces, "--to", back)
}

// sameExport compares the files of two exports.
func sameExport(t *testing.T, want, got map[string]string) {
	t.Helper()
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s differs", name)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d files, want %d", len(got), len(want))
	}
}

// importAgain kills an import of the rows.
func (k killed) importAgain(t *testing.T, g *gate, command func(...string) *exec.Cmd, from, to string) {
	t.Helper()
	g.batches.Store(0)
	all, batches := int64(k.partitions*k.each), int64(k.partitions*max(1, k.each/100))
	checkpoint := filepath.Join(t.TempDir(), "import.ckpt")
	args := []string{"import", "--from", from, "--to", to, "--checkpoint", checkpoint}
	for i := range int64(k.kills) {
		g.kill(t, command(args...), func() bool { return g.batches.Load()*int64(k.kills+1) >= batches*(i+1) })
		args = []string{"import", "--resume", checkpoint, "--from", from}
	}
	out, err := command(args...).Output()
	var result jobResult
	if err != nil || json.Unmarshal(out, &result) != nil || result.Rows != all || result.Written != all {
		t.Errorf("it counted %s, %v; want %d rows", out, err, all)
	}
}
