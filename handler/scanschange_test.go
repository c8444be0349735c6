package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/engine"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/storage"
)

// appUser runs commands as a user of an app does.
type appUser struct {
	*testing.T
	dir   string
	env   []string
	where []string // flags of commands with which the app changes scans
}

func newAppUser(t *testing.T, connection string) *appUser {
	t.Helper()
	return &appUser{T: t, dir: t.TempDir(), env: append(os.Environ(), "AzureWebJobsStorage="+connection)}
}

// run runs a command, which must end with the exit code.
func (u *appUser) run(exit int, args ...string) (stdout, stderr string) {
	u.Helper()
	return u.runWith("", exit, args...)
}

func (u *appUser) runWith(stdin string, exit int, args ...string) (stdout, stderr string) {
	u.Helper()
	var out, errText strings.Builder
	c := exec.CommandContext(u.Context(), "tablesweep", args...)
	c.Dir, c.Env, c.Stdin, c.Stdout, c.Stderr = u.dir, u.env, strings.NewReader(stdin), &out, &errText
	_ = c.Run()
	if code := c.ProcessState.ExitCode(); code != exit {
		u.Errorf("%v: exit code %d, want %d\n%s%s", args, code, exit, &out, &errText)
	}
	return out.String(), errText.String()
}

// change runs a command with which the app changes a scan.
func (u *appUser) change(exit int, args ...string) (stdout, stderr string) {
	u.Helper()
	return u.run(exit, append(append([]string{"scans"}, args...), u.where...)...)
}

// start starts a scan with a request, and returns its id.
func (u *appUser) start(request string) string {
	u.Helper()
	out, errText := u.runWith(request, 0, append([]string{"scans", "start", "-"}, u.where...)...)
	id := strings.TrimSuffix(out, "\n")
	if !ledger.ScanID(id).Valid() {
		u.Fatalf("scans start printed %q; stderr:\n%s", out, errText)
	}
	return id
}

// shows waits until scans show prints a text.
func (u *appUser) shows(id, want string) {
	u.Helper()
	shown := ""
	for range 300 {
		c := exec.CommandContext(u.Context(), "tablesweep", "scans", "show", id)
		c.Env = u.env
		text, _ := c.CombinedOutput()
		if shown = strings.Join(strings.Fields(string(text)), " "); strings.Contains(shown, want) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	u.Fatalf("want %q in the output of scan %s:\n%s", want, id, shown)
}

// fails runs a command with which the app changes a scan. The command must fail with the text.
func (u *appUser) fails(exit int, want string, args ...string) {
	u.Helper()
	if out, errText := u.change(exit, args...); !strings.Contains(errText, want) || out != "" {
		u.Errorf("%v: stdout %q, stderr %q, want %q", args, out, errText, want)
	}
}

// quietly runs a command with which the app changes a scan. With --quiet, it must print nothing.
func (u *appUser) quietly(args ...string) {
	u.Helper()
	if out, errText := u.change(0, append(args, "--quiet")...); out+errText != "" {
		u.Errorf("%v printed %q and %q, want nothing", args, out, errText)
	}
}

const (
	countOrders = `{"source":{"table":"orders"},"action":{"type":"count"}}`
	slowCopy    = `{"source":{"table":"orders"},"action":{"type":"copy","destination":{"table":"slow"}},"limits":{"rowsPerSecond":1}}`
	noScan      = "2516069745964350348-aaaaaa"
)

// TestScansAreStartedCanceledAndRetried starts, cancels and retries scans of an app, by its address and through its storage.
func TestScansAreStartedCanceledAndRetried(t *testing.T) {
	t.Parallel()
	_, own, connection := serveEmulator(t, emulator.Options{})
	emulatortest.Table(t, own, "orders", manyRows(40, 1))
	a := startApp(t, nil, "--storage", connection, "--keys=KEYofTheApp1234")
	defer a.stop(t)
	for name, where := range map[string][]string{"URL": {"--url", a.url}, "Storage": nil} {
		t.Run(name, func(t *testing.T) {
			byURL := where != nil
			u := newAppUser(t, connection)
			u.env, u.where = append(u.env, keySetting+"=KEYofTheApp1234"), where
			u.shows(u.start(countOrders), "state succeeded")

			id := u.start(slowCopy)
			u.shows(id, "state running")
			u.quietly("cancel", id)
			u.shows(id, "state canceled")
			u.change(0, "cancel", id)
			u.fails(exitFailed, "rows: the scan has no failed rows", "retry", id, "--failed")
			u.quietly("retry", id)
			u.shows(id, "state running")
			u.change(0, "retry", id)
			u.change(0, "cancel", id)

			taken := "taken" + name
			inTheWay := storage.Entity{Key: manyRows(1, 1)[0].Key, Properties: []storage.Property{storage.StringProperty("Other", "content")}}
			emulatortest.Table(t, own, taken, []storage.Entity{inTheWay})
			id = u.start(`{"source":{"table":"orders"},"action":{"type":"copy","mode":"fail","destination":{"table":"` + taken + `"}}}`)
			u.shows(id, "state failed")
			u.fails(exitFailed, "every step is done, but the scan has 1 failed row; ", "retry", id)
			proof.Must(t, own.Table(taken).Write(t.Context(), storage.Op{Kind: storage.Delete, Row: storage.Row{Key: inTheWay.Key}}))
			u.change(0, "retry", id, "--failed")
			u.shows(id, "state succeeded")
			u.fails(exitFailed, "the scan has already ended", "cancel", id)

			u.fails(exitFailed, `there is no scan "`+noScan, "cancel", noScan)
			u.fails(exitFailed, `there is no scan "`+noScan, "retry", noScan)
			none := strings.Replace(countOrders, "orders", "nothere", 1)
			proof.Must(t, os.WriteFile(filepath.Join(u.dir, "none.json"), []byte(none), 0o600), os.WriteFile(filepath.Join(u.dir, "bad.json"), []byte("{\n \"source\": {\"table\" \"x\"}\n}"), 0o600))
			if byURL {
				u.fails(exitFailed, "answers 404: source.table: table nothere does not exist", "start", "none.json")
			} else {
				u.shows(u.start(none), "was not started: source.table: table nothere does not exist")
			}
			u.fails(exitUsage, "bad.json: is not valid JSON: line 2, column 21: ", "start", "bad.json")
			u.fails(exitUsage, "none.txt: no such file", "start", "none.txt")
			if _, errText := u.runWith(`{"source":{"table":"orders"},"action":{"type":"cont"},"segmentSize":0}`, exitUsage, append([]string{"scans", "start", "-"}, where...)...); !strings.Contains(errText, `stdin: segmentSize: must be 1 to 1000; action.type: "cont" is unknown`) {
				t.Error(errText)
			}
		})
	}
	u := newAppUser(t, connection)
	u.where = []string{"--url", a.url}
	u.fails(exitFailed, "needs a key: set "+keySetting, "cancel", noScan)
	u.env = append(u.env, keySetting+"=WRONGkey12345678")
	u.fails(exitFailed, "refuses the key: set "+keySetting, "retry", noScan)
	if _, errText := u.change(exitFailed, "cancel", noScan); strings.Contains(errText, "WRONGkey") {
		t.Error(errText)
	}
	u.fails(exitUsage, "--url cannot be combined with --connection", "cancel", noScan, "--connection", "AzureWebJobsStorage")
	for _, address := range []string{"http://example.org", "https://example.org?code=SECRETkey", "example.org"} {
		u.where = []string{"--url", address}
		if _, errText := u.change(exitUsage, "cancel", noScan); !strings.Contains(errText, "--url must be of the form https://APP.azurewebsites.net, without a key") || strings.Contains(errText, "SECRETkey") {
			t.Error(errText)
		}
	}
	away := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprint(w, `{"status":503,"detail":"its storage is away"}`)
	}))
	defer away.Close()
	u.where = []string{"--url", away.URL}
	u.fails(exitFailed, "answers 503: its storage is away\ntablesweep: hint: run the command again; repeating it does no harm\n", "cancel", noScan)
	proof.Must(t, os.WriteFile(filepath.Join(u.dir, "count.json"), []byte(countOrders), 0o600))
	u.fails(exitFailed, "answers 503: its storage is away\ntablesweep: hint: the app may have started the scan; ", "start", "count.json")
	u.where = []string{"--url", "http://127.0.0.1:1"}
	u.fails(exitFailed, "127.0.0.1:1 did not answer: ", "cancel", noScan)
}

// TestChangingScansNeedsAnApp: the error shows that the account has no app.
func TestChangingScansNeedsAnApp(t *testing.T) {
	t.Parallel()
	_, _, connection := serveEmulator(t, emulator.Options{})
	u := newAppUser(t, connection)
	proof.Must(t, os.WriteFile(filepath.Join(u.dir, "count.json"), []byte(countOrders), 0o600))
	for _, args := range [][]string{{"start", "count.json"}, {"cancel", noScan}, {"retry", noScan}, {"retry", noScan, "--failed"}} {
		if out, errText := u.change(exitFailed, args...); out != "" || !strings.HasPrefix(errText, "tablesweep: error: no app keeps its scans in table tablesweep of this account\n") {
			t.Errorf("%v: stdout %q, stderr %q", args, out, errText)
		}
	}
}

// TestCancelDuringOutage: storage fails while a command cancels a scan. The command reports this, and the scan either continues or is canceled.
func TestCancelDuringOutage(t *testing.T) {
	t.Parallel()
	em, own, connection := serveEmulator(t, emulator.Options{})
	emulatortest.Table(t, own, "orders", manyRows(4, 1))
	e, err := engine.New(scans.Options{Own: own, Accounts: map[string]*storage.Account{storage.HostConnection: own}, StateTable: "tablesweep"})
	proof.Must(t, err, e.TryPrepare(t.Context()))
	u := newAppUser(t, connection)
	for faults, want := range map[string]struct {
		message string
		state   ledger.State
	}{
		"reset-before p=1 on=query table=tablesweep": {"nothing was changed: ", ledger.Running},
		"reset-before p=1 on=merge table=tablesweep": {"cancel scan ", ledger.Running},
		"reset-after p=1 on=merge table=tablesweep":  {"cancel scan ", ledger.Canceled}, // only the answer is lost
	} {
		id, err := e.Start(t.Context(), scans.Request{Source: scans.TableRef{Table: "orders"}, Action: scans.Action{Type: scans.Count}})
		proof.Must(t, err, em.SetFaults("seed=1; "+faults))
		u.fails(exitFailed, "error: "+want.message, "cancel", string(id), "--patience", "300ms")
		proof.Must(t, em.SetFaults(""))
		if s, err := e.Status(t.Context(), id); err != nil || s.State != want.state {
			t.Errorf("%s: the scan is %s, %v; want %s", faults, s.State, err, want.state)
		}
		u.change(0, "cancel", string(id))
		if s, err := e.Status(t.Context(), id); err != nil || s.State != ledger.Canceled {
			t.Errorf("%s: after the second try, the scan is %s, %v", faults, s.State, err)
		}
	}
}
