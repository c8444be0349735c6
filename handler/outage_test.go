package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"tablesweep/internal/job/sweep"
	"tablesweep/internal/job/verify"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/outagetest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/storage"
)

// away is an account that can be disconnected from the commands.
type away struct {
	*outagetest.Proxy
	em   *emulator.Emulator
	own  *storage.Account // the account without the proxy
	rows []storage.Entity // the rows of the account's table source
}

func newAway(t *testing.T, rows []storage.Entity) *away {
	em, own, connection := serveEmulator(t, emulator.Options{Latency: 10 * time.Millisecond})
	emulatortest.Table(t, own, "source", rows)
	return &away{outagetest.New(t, connection), em, own, rows}
}

// command returns a command of the program, with the account as its default.
func (a *away) command(args ...string) *child {
	c := &child{Cmd: exec.Command("tablesweep", args...)}
	c.Env = append(os.Environ(), "AzureWebJobsStorage="+a.Connection)
	c.Stdout, c.Stderr = &c.out, &c.stderr
	return c
}

// start starts the program, and counts its requests.
func (a *away) start(t *testing.T, args ...string) *child {
	t.Helper()
	a.em.ResetCounts()
	c := a.command(args...)
	proof.Must(t, c.Start())
	c.ended = make(chan error, 1)
	go func() { c.ended <- c.Wait() }()
	return c
}

// child is a running process.
type child struct {
	*exec.Cmd
	out    bytes.Buffer
	stderr buffer
	ended  chan error // receives the process's error if start has started it
}

// until waits until is returns true. The process must not end before that.
func (c *child) until(t *testing.T, is func() bool) {
	t.Helper()
	for !is() {
		select {
		case err := <-c.ended:
			t.Fatalf("the process has ended: %v\n%s", err, &c.stderr)
		case <-time.After(time.Millisecond):
		}
	}
}

// buffer can be read while a process writes to it.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// after waits until the account has received the given number of requests from a command.
func (a *away) after(t *testing.T, c *child, requests int64) {
	t.Helper()
	c.until(t, func() bool { return a.em.Counts().TableTransactions() >= requests })
}

func (a *away) same(t *testing.T, table string) {
	t.Helper()
	sameRows(t, a.own, table, len(a.rows))
}

// sameRows compares a table with the account's table source, which has the given number of rows.
func sameRows(t testing.TB, a *storage.Account, table string, rows int) {
	t.Helper()
	r, err := verify.Compare(t.Context(), sweep.Spec{Source: a.Table("source")}, a.Table(table), verify.Options{})
	if err != nil || r.Rows != int64(rows) || r.Differences() > 0 {
		t.Errorf("table %s differs: %+v, error %v", table, r, err)
	}
}

// outage is how long storage does not answer. By default, this is too short for commands to report it.
var outage = testsize.Of(500*time.Millisecond, 4*time.Second)

// TestCopyThroughOutages checks that a copy waits while storage does not answer, and then continues. After --patience, the copy stops. Its resume waits for
// the account from the first request on.
func TestCopyThroughOutages(t *testing.T) {
	t.Parallel()
	rows := manyRows(testsize.Of(700, 1500), 2)
	for _, kind := range []outagetest.Mode{outagetest.Refuse, outagetest.Drop} {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			t.Parallel()
			a := newAway(t, rows)
			c := a.start(t, "copy", "--from", "source", "--to", "copied", "--json", "--progress", "none", "--workers", "8")
			a.after(t, c, 300)
			a.For(outage, kind)
			if err := <-c.ended; err != nil {
				t.Fatalf("error %v; stderr:\n%s", err, &c.stderr)
			}
			var r jobResult
			if err := json.Unmarshal(c.out.Bytes(), &r); err != nil || r.Rows != int64(len(rows)) || r.Written != r.Rows || r.Failed+r.Skipped > 0 {
				t.Errorf("got the result %s, error %v", &c.out, err)
			}
			if stderr := c.stderr.String(); testsize.Full() && (!strings.Contains(stderr, "waiting for AzureWebJobsStorage ") || !strings.Contains(stderr, "answers again")) {
				t.Errorf("stderr is\n%s", stderr)
			}
			a.same(t, "copied")
		})
	}
	t.Run("patience", func(t *testing.T) {
		t.Parallel()
		a := newAway(t, rows)
		path := filepath.Join(t.TempDir(), "c.ckpt")
		c := a.start(t, "copy", "--from", "source", "--to", "copied", "--progress", "none", "--workers", "8", "--patience", "5s", "--checkpoint", path)
		a.after(t, c, 300)
		a.Set(outagetest.Refuse)
		<-c.ended
		stderr := c.stderr.String()
		if code := c.ProcessState.ExitCode(); code != exitFailed || !strings.Contains(stderr, "of AzureWebJobsStorage: no good answer for ") || !strings.Contains(stderr, "copy --resume "+path+" continues") {
			t.Errorf("exit code %d; stderr:\n%s", code, stderr)
		}
		c = a.start(t, "copy", "--resume", path, "--progress", "none")
		time.Sleep(outage)
		a.Set(outagetest.Forward)
		if err := <-c.ended; err != nil {
			t.Fatalf("error %v; stderr:\n%s", err, &c.stderr)
		}
		a.same(t, "copied")
	})
}

// TestInterruptWhileStorageHangs checks that a first interrupt immediately shows what the copy waits for, and that a second interrupt ends it within a
// second. Both leave a checkpoint for a resume.
func TestInterruptWhileStorageHangs(t *testing.T) {
	t.Parallel()
	a := newAway(t, manyRows(testsize.Of(700, 1500), 2))
	path := filepath.Join(t.TempDir(), "c.ckpt")
	c := a.start(t, "copy", "--from", "source", "--to", "copied", "--progress", "json", "--workers", "8", "--checkpoint", path)
	a.after(t, c, 300)
	a.Set(outagetest.Hang)
	time.Sleep(200 * time.Millisecond)
	interrupt := func() {
		proof.Must(t, c.Process.Signal(os.Interrupt))
	}
	interrupt()
	interrupt() // the interrupt that a wrapper forwards
	waits := regexp.MustCompile(`{"warning":"interrupted: waiting for \d+ requests; press Ctrl-C again to end"}`)
	c.until(t, func() bool { return waits.MatchString(c.stderr.String()) })
	time.Sleep(2 * forwarded)
	if strings.Contains(c.stderr.String(), "--resume") {
		t.Error("the first interrupt did not wait")
	}
	interrupt()
	<-c.ended
	if code := c.ProcessState.ExitCode(); code != exitInterrupted {
		t.Errorf("exit code %d after the second interrupt", code)
	}
	for line := range strings.Lines(c.stderr.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("text among JSON: %s", line)
		}
	}
	if !strings.Contains(c.stderr.String(), "--resume "+path) {
		t.Errorf("stderr is\n%s", &c.stderr)
	}
	a.Set(outagetest.Forward)
	if c = a.command("copy", "--resume", path, "--progress", "none"); c.Run() != nil {
		t.Fatal(&c.stderr)
	}
	a.same(t, "copied")
}
