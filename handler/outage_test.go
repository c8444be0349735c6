package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tablesweep/internal/emulator"
	"tablesweep/internal/emulator/emulatortest"
	"tablesweep/internal/emulator/outagetest"
	"tablesweep/internal/storage"
	"tablesweep/internal/sweep"
	"tablesweep/internal/sweep/verify"
	"tablesweep/internal/testsize"
)

// away is an account that can be cut off from the commands.
type away struct {
	*outagetest.Proxy
	em   *emulator.Emulator
	own  *storage.Account // not by way of the proxy
	rows []storage.Entity // of its table source
}

func newAway(t *testing.T, rows []storage.Entity) *away {
	em, own, connection := serveEmulator(t, emulator.Options{Latency: 10 * time.Millisecond})
	emulatortest.Table(t, own, "source", rows)
	return &away{outagetest.New(t, connection), em, own, rows}
}

// command is the program with the account as its default one.
func (a *away) command(args ...string) *child {
	c := &child{Cmd: exec.Command("handler", args...)}
	c.Env = append(os.Environ(), "AzureWebJobsStorage="+a.Connection)
	c.Stdout, c.Stderr = &c.out, &c.told
	return c
}

// start starts the program, and counts its requests.
func (a *away) start(t *testing.T, args ...string) *child {
	t.Helper()
	a.em.ResetCounts()
	c := a.command(args...)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c
}

// child is a process under way.
type child struct {
	*exec.Cmd
	out  bytes.Buffer
	told buffer
}

// buffer can be read while it is written.
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

// after waits until the account has had so many requests since its counts were reset.
func (a *away) after(t *testing.T, requests int64) {
	t.Helper()
	for a.em.Counts().TableTransactions() < requests {
		time.Sleep(time.Millisecond)
	}
}

func (a *away) same(t *testing.T, table string) {
	t.Helper()
	sameRows(t, a.own, table, len(a.rows))
}

// sameRows compares a table with the account's table source, which has so many rows.
func sameRows(t testing.TB, a *storage.Account, table string, rows int) {
	t.Helper()
	r, err := verify.Compare(t.Context(), sweep.Spec{Source: a.Table("source")}, a.Table(table), verify.Options{})
	if err != nil || r.Rows != int64(rows) || r.Differences() > 0 {
		t.Errorf("%s: %+v, %v", table, r, err)
	}
}

// outage is how long storage is away: by default, too short for commands to speak of it.
var outage = testsize.Of(500*time.Millisecond, 4*time.Second)

// TestAppThroughOutages: three handler processes copy from one table of a data account to another while nobody listens there
// for a time. The copy is exact, and over soon after the outage.
func TestAppThroughOutages(t *testing.T) {
	t.Parallel()
	a := newAway(t, manyRows(testsize.Of(300, 3000), 2))
	app, ok := startApp(t, map[string]string{"DATA": a.Connection, "TABLESWEEP_CONNECTIONS": "AzureWebJobsStorage,DATA"}, "--instances", "3")
	if !ok {
		t.Fatalf("the app does not start:\n%s", &app.log)
	}
	a.em.ResetCounts()
	var scan struct {
		ID, State, Error string
		Rows             struct{ Scanned, Written, Failed int }
	}
	started := app.call(t, "POST", "/api/scans", nil, `{"source":{"table":"source","connection":"DATA"},"action":{"type":"copy","destination":{"table":"copied","connection":"DATA"}}}`, http.StatusAccepted, "{")
	if err := json.Unmarshal([]byte(started), &scan); err != nil {
		t.Fatal(err)
	}
	a.after(t, 100)
	began := time.Now()
	a.For(outage, outagetest.Refuse)
	for scan.State != "succeeded" && scan.State != "failed" {
		time.Sleep(100 * time.Millisecond)
		if err := json.Unmarshal([]byte(app.call(t, "GET", "/api/scans/"+scan.ID, nil, "", http.StatusOK, "{")), &scan); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("over %v after an outage of %v", time.Since(began)-outage, outage)
	if scan.State != "succeeded" || scan.Rows.Written != len(a.rows) || scan.Rows.Failed > 0 {
		t.Errorf("%+v after %v", scan, time.Since(began))
	}
	a.same(t, "copied")
	app.stop(t)
}

// A copy goes on after storage was away, whatever its mode and the kind of outage, and
// says for whom it waits.
func TestCopyThroughOutages(t *testing.T) {
	t.Parallel()
	rows := manyRows(testsize.Of(700, 1500), 2)
	for _, tt := range []struct {
		mode string
		kind outagetest.Mode
		told string
	}{
		{"replace", outagetest.Refuse, "connection refused"},
		{"merge", outagetest.Drop, "connection broken|closed idle connection"},
		{"skip", outagetest.Drop, "connection broken|closed idle connection"},
		{"fail", outagetest.Refuse, "connection refused"},
	} {
		t.Run(tt.mode, func(t *testing.T) {
			t.Parallel()
			a := newAway(t, rows)
			c := a.start(t, "copy", "--from", "source", "--to", "copied", "--mode", tt.mode, "--json", "--progress", "none", "--workers", "8")
			a.after(t, 300)
			a.For(outage, tt.kind)
			if testsize.Full() {
				a.after(t, 600)
				a.For(outage/4, tt.kind)
			}
			if err := c.Wait(); err != nil {
				t.Fatalf("%v\n%s", err, &c.told)
			}
			var r jobResult
			if err := json.Unmarshal(c.out.Bytes(), &r); err != nil || r.Rows != int64(len(rows)) || r.Written != r.Rows || r.Failed+r.Skipped > 0 {
				t.Errorf("%s, %v", &c.out, err)
			}
			if told := c.told.String(); testsize.Full() && (!strings.Contains(told, "waiting for AzureWebJobsStorage ") || !regexp.MustCompile(tt.told).MatchString(told) || !strings.Contains(told, "answers again")) {
				t.Errorf("it told\n%s", told)
			}
			a.same(t, "copied")
		})
	}
}

// After --patience a copy stops. With a checkpoint, it goes on when storage is back.
func TestPatienceEnds(t *testing.T) {
	t.Parallel()
	rows := manyRows(testsize.Of(700, 1500), 2)
	for _, checkpoint := range []bool{false, true} {
		t.Run(fmt.Sprintf("checkpoint %v", checkpoint), func(t *testing.T) {
			t.Parallel()
			a := newAway(t, rows)
			path := filepath.Join(t.TempDir(), "c.ckpt")
			args := []string{"copy", "--from", "source", "--to", "copied", "--progress", "none", "--workers", "8", "--patience", "1s"}
			hint := "it can't be resumed"
			if checkpoint {
				args = append(args, "--checkpoint", path)
				hint = "copy --resume " + path + " continues"
			}
			c := a.start(t, args...)
			a.after(t, 300)
			a.Set(outagetest.Refuse)
			_ = c.Wait()
			if code := c.ProcessState.ExitCode(); code != exitFailed {
				t.Errorf("exit code %d", code)
			}
			if told := c.told.String(); !strings.Contains(told, "of AzureWebJobsStorage: no good answer for ") || !strings.Contains(told, "connection refused") || !strings.Contains(told, hint) {
				t.Errorf("it told\n%s", told)
			}
			if !checkpoint {
				return
			}
			c = a.start(t, "copy", "--resume", path, "--progress", "none") // which waits for the account
			time.Sleep(outage)
			a.Set(outagetest.Forward)
			if err := c.Wait(); err != nil {
				t.Fatalf("%v\n%s", err, &c.told)
			}
			a.same(t, "copied")
		})
	}
}

// A comparison goes on after storage was away. One that runs out of patience can be resumed, and
// counts as if it had not been interrupted.
func TestVerifyThroughOutages(t *testing.T) {
	t.Parallel()
	const lost = 3
	rows := manyRows(testsize.Of(600, 1500), 2)
	path := filepath.Join(t.TempDir(), "v.ckpt")
	compare := []string{"verify", "--from", "source", "--to", "copied", "--json", "--progress", "none", "--workers", "8"}
	check := func(t *testing.T, c *child) {
		t.Helper()
		_ = c.Wait()
		want := fmt.Sprintf(`{"rows":%d,"missing":%d,"extra":0,"different":0,`, len(rows), lost)
		if code := c.ProcessState.ExitCode(); code != exitFailed || strings.Count(c.out.String(), `{"difference":"missing"`) != lost || !strings.Contains(c.out.String(), want) {
			t.Errorf("exit code %d, want %s\n%s\n%s", code, want, &c.out, &c.told)
		}
	}
	for _, kind := range []outagetest.Mode{outagetest.Refuse, outagetest.Drop} {
		t.Run(fmt.Sprint(kind), func(t *testing.T) {
			t.Parallel()
			a := newAway(t, rows)
			if err := a.em.SetFaults("short-page p=1 rows=10"); err != nil {
				t.Fatal(err)
			}
			emulatortest.Table(t, a.own, "copied", rows[lost:])
			c := a.start(t, compare...)
			a.after(t, 150)
			a.For(outage, kind)
			if check(t, c); testsize.Full() && !strings.Contains(c.told.String(), "waiting for AzureWebJobsStorage ") {
				t.Errorf("it told\n%s", &c.told)
			}
			if kind != outagetest.Refuse {
				return
			}
			c = a.start(t, append(slices.Clone(compare), "--checkpoint", path, "--patience", "1s")...)
			a.after(t, 150)
			a.Set(kind)
			_ = c.Wait()
			if told := c.told.String(); !strings.Contains(told, "of AzureWebJobsStorage: no good answer for ") || !strings.Contains(told, "verify --resume "+path+" continues") || c.out.Len() > 0 {
				t.Errorf("it told\n%s\n%s", told, &c.out)
			}
			a.Set(outagetest.Forward)
			c = a.start(t, "verify", "--resume", path, "--json", "--progress", "none")
			check(t, c)
		})
	}
}

// Every command reports an account that it has never reached at once.
func TestRefusedFromTheBeginning(t *testing.T) {
	t.Parallel()
	a := newAway(t, nil)
	a.Set(outagetest.Refuse)
	for _, args := range []string{
		"copy --from source --to copied", "count --table source", "scan --table source", "keys --table source", "verify --from source --to copied",
		"enqueue --table source --queue work", "delete --table source --yes", "log tail orders", "catalog query eid=1 --table People --index-keys eid --row-key at",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			c := a.command(strings.Fields(args)...)
			_ = c.Run()
			if c.ProcessState.ExitCode() != exitFailed || !strings.Contains(c.told.String(), "connection refused") {
				t.Errorf("exit code %d: %s", c.ProcessState.ExitCode(), &c.told)
			}
		})
	}
}

// A --patience that is given holds from the first request on, for an account that refuses and for one that hangs.
func TestPatienceFromTheBeginning(t *testing.T) {
	t.Parallel()
	count := []string{"count", "--table", "source", "--progress", "none", "--patience", "6s"}
	t.Run("refused for a while", func(t *testing.T) {
		t.Parallel()
		a := newAway(t, manyRows(10, 1))
		a.Set(outagetest.Refuse)
		c := a.start(t, count...)
		time.Sleep(outage)
		a.Set(outagetest.Forward)
		if err := c.Wait(); err != nil || strings.TrimSpace(c.out.String()) != "10" {
			t.Errorf("%v, counted %s\n%s", err, &c.out, &c.told)
		}
	})
	t.Run("hangs", func(t *testing.T) {
		t.Parallel()
		if !testsize.Full() {
			t.Skip("takes 7 s; in full it does")
		}
		a := newAway(t, nil)
		a.Set(outagetest.Hang)
		began := time.Now()
		c := a.command(count...)
		_ = c.Run()
		took := time.Since(began)
		if code := c.ProcessState.ExitCode(); code != exitFailed || took < 6*time.Second || !strings.Contains(c.told.String(), "no good answer") || !strings.Contains(c.told.String(), "waiting for") {
			t.Errorf("exit code %d after %v\n%s", code, took, &c.told)
		}
	})
}

// Messages whose answer was lost may be there twice. They are counted, and every row
// has its own.
func TestEnqueueCountsDoubts(t *testing.T) {
	t.Parallel()
	a := newAway(t, manyRows(20, 100))
	c := a.start(t, "enqueue", "--table", "source", "--queue", "work", "--message", "{{.PartitionKey}} {{.RowKey}}", "--encoding", "none", "--json", "--progress", "none", "--workers", "16")
	q, err := a.own.Queue("work")
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < 300; time.Sleep(5 * time.Millisecond) {
		n, _ = q.Length(t.Context())
	}
	a.For(outage, outagetest.Drop)
	if err := c.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, &c.told)
	}
	var r jobResult
	if err := json.Unmarshal(c.out.Bytes(), &r); err != nil || r.Written != int64(len(a.rows)) {
		t.Fatalf("%s, %v", &c.out, err)
	}
	seen, messages := map[string]int{}, 0
	for {
		got, err := q.Get(t.Context(), storage.MaxGetMessages, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) == 0 {
			break
		}
		for _, m := range got {
			seen[m.Text]++
			messages++
		}
	}
	if twice := int64(messages - len(a.rows)); len(seen) != len(a.rows) || r.Doubts == 0 || twice > r.Doubts {
		t.Errorf("%d messages for %d rows of %d, %d told to be in doubt", messages, len(seen), len(a.rows), r.Doubts)
	}
}

// An interrupt says at once what it waits for, and a second one ends the copy within a
// second. Both leave a checkpoint to go on from.
func TestInterruptWhileStorageHangs(t *testing.T) {
	t.Parallel()
	a := newAway(t, manyRows(testsize.Of(700, 1500), 2))
	path := filepath.Join(t.TempDir(), "c.ckpt")
	c := a.start(t, "copy", "--from", "source", "--to", "copied", "--progress", "json", "--workers", "8", "--checkpoint", path)
	a.after(t, 300)
	a.Set(outagetest.Hang)
	time.Sleep(200 * time.Millisecond)
	interrupt := func() {
		if err := c.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
	}
	interrupt()
	interrupt() // which a wrapper forwards
	waits := regexp.MustCompile(`{"warning":"interrupted: waiting for \d+ requests; Ctrl-C again ends at once"}`)
	for !waits.MatchString(c.told.String()) {
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(2 * forwarded)
	if strings.Contains(c.told.String(), "--resume") {
		t.Error("the first interrupt did not wait")
	}
	interrupt()
	_ = c.Wait()
	if code := c.ProcessState.ExitCode(); code != exitInterrupted {
		t.Errorf("exit code %d after the second interrupt", code)
	}
	for line := range strings.Lines(c.told.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("text among JSON: %s", line)
		}
	}
	if !strings.Contains(c.told.String(), "--resume "+path) {
		t.Errorf("it told\n%s", &c.told)
	}
	a.Set(outagetest.Forward)
	if c = a.command("copy", "--resume", path, "--progress", "none"); c.Run() != nil {
		t.Fatal(&c.told)
	}
	a.same(t, "copied")
}

// What waits for storage that refuses is not under way: an interrupt ends it.
func TestInterruptWhileStorageRefuses(t *testing.T) {
	t.Parallel()
	a := newAway(t, manyRows(testsize.Of(700, 1500), 2))
	if err := a.em.SetFaults("short-page p=1 rows=10"); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{"copy --from source --to copied", "keys --table source --workers 2"} {
		t.Run(args, func(t *testing.T) {
			c := a.start(t, strings.Fields(args)...)
			a.after(t, 50)
			a.Set(outagetest.Refuse)
			time.Sleep(outage / 2)
			if err := c.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			_ = c.Wait()
			if code := c.ProcessState.ExitCode(); code != exitInterrupted {
				t.Errorf("exit code %d\n%s", code, &c.told)
			}
			a.Set(outagetest.Forward)
		})
	}
}
