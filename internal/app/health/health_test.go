package health_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"tablesweep/internal/app/health"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/engine"
	"tablesweep/internal/scans/ledger"
	"tablesweep/internal/storage"
)

var root = os.DirFS("../../..")

// secret is part of every setting, key and signature in these tests.
const secret = "bWFya2Vk"

// prepare creates the tables and queues that an app creates at its start, and runs Maintain once.
func prepare(t *testing.T, a *storage.Account, state string) {
	t.Helper()
	e, err := engine.New(scans.Options{Own: a, Accounts: map[string]*storage.Account{storage.HostConnection: a}, StateTable: state})
	proof.Must(t, err)
	proof.Must(t, e.TryPrepare(t.Context()))
	proof.Must(t, e.WriteMaintained(t.Context(), nil))
}

// states returns "STATE NAME" for each check. It fails the test if a check contains the secret.
func states(t *testing.T, checks []health.Check) string {
	t.Helper()
	var all []string
	for _, c := range checks {
		all = append(all, string(c.State)+" "+c.Name)
		if strings.Contains(c.Detail, secret) || strings.Contains(c.Detail, "\n") {
			t.Errorf("the check %s contains a secret, or has two lines: %s", c.Name, c.Detail)
		}
	}
	return strings.Join(all, "\n")
}

func TestAppSendsSixRequests(t *testing.T) {
	em, a := emulatortest.NewAccount(t, emulator.Options{})
	prepare(t, a, "tablesweep")
	em.ResetCounts()
	checks := health.App{Own: a, StateTable: "tablesweep", Root: root}.Check(t.Context())
	want := `ok host.json
ok state table
ok clock
ok Maintain
ok poison queues
ok steps
ok queue tablesweep-copy-rows
ok queue tablesweep-scan-partition
ok queue tablesweep-scan-prefix`
	if got := states(t, checks); got != want {
		t.Errorf("got\n%s\nwant\n%s\n%+v", got, want, checks)
	}
	if c := em.Counts(); c.TableTransactions()+c.QueueTransactions() > 6 {
		t.Errorf("got requests %+v, want at most 6", c)
	}
}

// If the storage does not answer, each check soon reports that.
func TestAppWithoutStorage(t *testing.T) {
	em, a := emulatortest.NewAccount(t, emulator.Options{})
	proof.Must(t, em.SetFaults("reset-before p=1"))
	checks := health.App{Own: a, StateTable: "tablesweep", Root: fstest.MapFS{}}.Check(t.Context())
	if got := states(t, checks); strings.Count(got, "failed ") != 6 || !strings.HasPrefix(got, "unknown host.json") {
		t.Errorf("got\n%s", got)
	}
}

// If an account of scans is unavailable or refuses the app, there is a warning with the account's name. Any other answer is accepted.
func TestUnavailableAccountIsAWarning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, own := emulatortest.NewAccount(t, emulator.Options{})
		prepare(t, own, "tablesweep")
		others := map[string]*storage.Account{}
		for name, faults := range map[string]string{"AWAY": "reset-before p=1", "BUSY": "busy p=1", "GOOD": ""} {
			em, a := emulatortest.NewAccount(t, emulator.Options{})
			proof.Must(t, em.SetFaults(faults))
			others[name] = a
		}
		wait := ledger.Wait{Connection: "BUSY", Cause: "it answers 503 ServerBusy", Since: time.Date(2026, 1, 1, 3, 4, 5, 0, time.UTC)}
		heartbeat := ledger.Heartbeat{Process: "p", Waiting: []ledger.Wait{wait}}
		proof.Must(t, ledger.New(own.Table("tablesweep")).WriteHeartbeat(t.Context(), heartbeat))
		checks := health.App{Own: own, StateTable: "tablesweep", Root: root, Others: others}.Check(t.Context())
		if got := states(t, checks); !strings.HasSuffix(got, "warning connection AWAY\nwarning connection BUSY\nok connection GOOD") {
			t.Errorf("got\n%s", got)
		}
		want := health.Check{Name: "steps", State: health.Warning, Detail: "steps have been waiting for BUSY since 03:04:05 UTC: it answers 503 ServerBusy"}
		if !slices.Contains(checks, want) {
			t.Errorf("got checks %+v, want among them %+v", checks, want)
		}
	})
}

// doctorOf returns the doctor's checks, by name.
func doctorOf(t *testing.T, d health.Doctor) map[string]health.Check {
	t.Helper()
	if d.Root == nil {
		d.Root = root
	}
	d.Web = http.DefaultClient
	checks := d.Check(t.Context())
	states(t, checks)
	byName := map[string]health.Check{}
	for _, c := range checks {
		byName[c.Name] = c
	}
	return byName
}

// A working setup, on embedded storage and on Azurite.
func TestDoctorWithAWorkingSetup(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("x-functions-key") != secret || r.URL.Path != "/api/health" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, `{"status":"ok","checks":[{"name":"settings","state":"ok","detail":"right"}]}`)
	}))
	defer site.Close()
	server, err := emulatortest.New(t, emulator.Options{}).Serve(t.Context(), "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0")
	proof.Must(t, err)
	defer server.Close()
	for name, connection := range map[string]string{"embedded": server.ConnectionString(), "azurite": os.Getenv("TABLESWEEP_AZURITE")} {
		t.Run(name, func(t *testing.T) {
			if connection == "" {
				t.Skip("SKIPPED: TABLESWEEP_AZURITE has no connection string; scripts/test.sh starts Azurite and sets it")
			}
			settings := storage.Settings{
				storage.HostConnection: connection, "TABLESWEEP_CONNECTIONS": "AzureWebJobsStorage,BACKUP", "BACKUP": connection,
				"TABLESWEEP_STATE_TABLE": "doctorstate", "TABLESWEEP_LOG_TABLE": "doctorlog",
				"TABLE_CATALOG_NAME": "DoctorPeople", "TABLE_CATALOG_INDEX_KEYS": "eid", "TABLE_CATALOG_ROW_KEY": "name",
			}
			a := account(t, settings)
			prepare(t, a, "doctorstate")
			for _, table := range []string{"doctorlog", "DoctorPeople", "DoctorPeopleWAL"} {
				proof.Must(t, a.Table(table).Create(t.Context()))
			}
			found := doctorOf(t, health.Doctor{App: health.App{Settings: settings}, URL: site.URL, Key: secret})
			for _, name := range slices.Sorted(maps.Keys(found)) {
				if c := found[name]; c.State != health.OK && (name != "blobs" || c.State == health.Failed) { // the Functions host creates their container
					t.Errorf("check %s: state %s, detail %s", name, c.State, c.Detail)
				}
			}
			if len(found) < 16 {
				t.Errorf("got only %d checks: %v", len(found), found)
			}
		})
	}
}

// noApp is an address at which no app answers.
const noApp = "http://127.0.0.1:1"

// The doctor checks all roles of an account concurrently, so that a slow account can answer in time. This server answers once all requests have
// arrived.
func TestDoctorChecksRolesConcurrently(t *testing.T) {
	const requests = 11 // six of the app's checks, the log table, a message in each of three queues, and blobs
	var requested atomic.Int32
	all := make(chan struct{})
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Ms-Error-Code", "TableNotFound")
		if !strings.Contains(r.URL.Path, "tablesweepdoctor") {
			if w.Header().Set("X-Ms-Error-Code", "QueueNotFound"); requested.Add(1) == requests {
				close(all)
			}
			select {
			case <-all:
			case <-r.Context().Done():
			}
		}
		w.WriteHeader(http.StatusNotFound)
	}))
	defer site.Close()
	found := doctorOf(t, health.Doctor{URL: noApp, App: health.App{Settings: storage.Settings{storage.HostConnection: fmt.Sprintf("AccountName=a;AccountKey=%s;TableEndpoint=%[2]s/a;QueueEndpoint=%[2]s/a;BlobEndpoint=%[2]s/a", secret, site.URL)}}})
	if n := requested.Load(); n != requests || found["blobs"].Detail == "" {
		t.Errorf("got %d requests, want %d; checks %+v", n, requests, found)
	}
}

func account(t *testing.T, settings storage.Settings) *storage.Account {
	t.Helper()
	c, err := storage.SettingConnection(storage.HostConnection, settings)
	proof.Must(t, err)
	a, err := storage.Open(c, storage.Options{})
	proof.Must(t, err)
	return a
}

// tablesOf returns the part of a connection string with the table endpoint.
func tablesOf(connection string) string {
	_, rest, _ := strings.Cut(connection, "TableEndpoint=")
	endpoint, _, _ := strings.Cut(rest, ";")
	return "TableEndpoint=" + endpoint
}

// The doctor names each kind of broken setup, and the change to make.
func TestDoctorReportsEachProblem(t *testing.T) {
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Host == "localhost":
		case r.Header.Get("x-functions-key") == secret:
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintf(w, `{"status":"failed","checks":[{"name":"settings","state":"failed","detail":"setting X\nis \u001bmissing, and not %s"}]}`, secret)
		default:
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer site.Close()
	other := httptest.NewServer(http.RedirectHandler(site.URL, http.StatusFound))
	defer other.Close()
	server, err := emulatortest.New(t, emulator.Options{}).Serve(t.Context(), "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0")
	proof.Must(t, err)
	defer server.Close()
	good := server.ConnectionString()
	wrongKey := strings.Replace(good, "AccountKey=", "AccountKey="+secret, 1)
	answering := func(status int, body string) health.Doctor {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}))
		t.Cleanup(s.Close)
		return health.Doctor{URL: s.URL, Key: secret}
	}
	late := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", time.Now().Add(time.Hour+30*time.Second).UTC().Format(http.TimeFormat))
		w.Header().Set("X-Ms-Error-Code", "AuthenticationFailed")
		w.WriteHeader(http.StatusForbidden)
	}))
	defer late.Close()
	walled := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Ms-Error-Code", "AuthorizationFailure")
		w.WriteHeader(http.StatusForbidden)
	}))
	defer walled.Close()
	behind := "AccountName=a;AccountKey=" + secret + ";TableEndpoint=" + walled.URL + "/a;QueueEndpoint=" + walled.URL + "/a"
	off := "AccountName=a;AccountKey=" + secret + ";TableEndpoint=" + late.URL + "/a;QueueEndpoint=" + late.URL + "/a"
	for _, tt := range []struct {
		name         string
		doctor       health.Doctor
		more         storage.Settings
		check, words string
		state        health.State
	}{
		{"no connection", health.Doctor{}, storage.Settings{storage.HostConnection: ""}, "settings", "setting AzureWebJobsStorage is missing", health.Failed},
		{"an invalid connection", health.Doctor{}, storage.Settings{storage.HostConnection: "AccountKey=" + secret}, "settings", "neither AccountName nor TableEndpoint", health.Failed},
		{"wrong key", health.Doctor{}, storage.Settings{storage.HostConnection: wrongKey}, "connection AzureWebJobsStorage", "403 AuthenticationFailed", health.Failed},
		{"wrong key, and the change to make", health.Doctor{}, storage.Settings{storage.HostConnection: wrongKey}, "connection AzureWebJobsStorage", "; its key is not valid for the account", health.Failed},
		{"behind a firewall", health.Doctor{}, storage.Settings{storage.HostConnection: behind}, "connection AzureWebJobsStorage", "; the cause may be the account's firewall, or the permissions of its key", health.Failed},
		{"wrong clock", health.Doctor{}, storage.Settings{storage.HostConnection: off}, "clock", "behind the storage's; set this machine's clock, because the storage refuses signed requests", health.Failed},
		{"refused for its clock, elsewhere", health.Doctor{}, storage.Settings{"TABLESWEEP_CONNECTIONS": "BACKUP", "BACKUP": off}, "connection BACKUP", "; this machine's clock is 1h0m", health.Failed},
		{"wrong key of another account", health.Doctor{}, storage.Settings{"TABLESWEEP_CONNECTIONS": "BACKUP", "BACKUP": wrongKey}, "connection BACKUP", "403 AuthenticationFailed", health.Failed},
		{"another account that is unavailable", health.Doctor{}, storage.Settings{"TABLESWEEP_CONNECTIONS": "BACKUP", "BACKUP": "AccountName=a;AccountKey=" + secret + ";TableEndpoint=http://127.0.0.1:1/a;QueueEndpoint=http://127.0.0.1:1/a"}, "connection BACKUP", "steps that need this account have to wait: ", health.Warning},
		{"wrong signature", health.Doctor{}, storage.Settings{storage.HostConnection: tablesOf(good) + ";SharedAccessSignature=sig=" + secret}, "connection AzureWebJobsStorage", "by a shared access signature", health.Failed},
		{"noApp listens", health.Doctor{}, storage.Settings{storage.HostConnection: "AccountName=a;AccountKey=" + secret + ";TableEndpoint=http://127.0.0.1:1/a;QueueEndpoint=http://127.0.0.1:1/a"}, "connection AzureWebJobsStorage", "refused", health.Failed},
		{"not deployed", health.Doctor{}, nil, "app's storage", "not deployed: the account has neither the table tablesweep nor a queue", health.Warning},
		{"never started: queues", health.Doctor{URL: noApp}, nil, "queue tablesweep-copy-rows", "the app creates its queues when it starts", health.Failed},
		{"never started: table", health.Doctor{URL: noApp}, nil, "state table", "start the app, which creates this table", health.Failed},
		{"never started: Maintain", health.Doctor{URL: noApp}, nil, "Maintain", "has never run", health.Warning},
		{"catalog", health.Doctor{}, storage.Settings{"TABLE_CATALOG_NAME": "People", "TABLE_CATALOG_INDEX_KEYS": "eid", "TABLE_CATALOG_ROW_KEY": "name"}, "catalog People, log", "no table PeopleWAL", health.Failed},
		{"another folder", health.Doctor{App: health.App{Root: fstest.MapFS{}}}, nil, "host.json", "in the app's folder", health.Unknown},
		{"bad host.json", health.Doctor{App: health.App{Root: fstest.MapFS{"host.json": {Data: []byte(`{"version":"1.0"}`)}}}}, nil, "host.json", `version must be "2.0"`, health.Failed},
		{"no URL", health.Doctor{}, nil, "app", "--url", health.Unknown},
		{"URL over http", health.Doctor{URL: "http://example.org"}, nil, "app", "must be of the form https://", health.Failed},
		{"URL with a key", health.Doctor{URL: "https://example.org/?code=" + secret}, nil, "app", "without a key", health.Failed},
		{"no key", health.Doctor{URL: site.URL}, nil, "app", "needs a key", health.Failed},
		{"key refused", health.Doctor{URL: site.URL, Key: "x" + secret}, nil, "app", "refuses the key", health.Failed},
		{"app with a problem", health.Doctor{URL: site.URL, Key: secret}, nil, "app", "settings: setting X", health.Failed},
		{"another app's health", answering(200, `{"status":"ok"}`), nil, "app", "the answer is not from this app", health.Failed},
		{"an unknown state", answering(200, `{"status":"\u001b[2Jok"}`), nil, "app", "the answer is not from this app", health.Failed},
		{"a proxy's page", answering(200, "<html>"), nil, "app", "the answer is not from this app", health.Failed},
		{"an answer that breaks off", answering(200, `{"status":"ok"`), nil, "app", "the answer is not from this app", health.Failed},
		{"ok, with status 503", answering(503, `{"status":"ok","checks":[{"name":"x","state":"ok"}]}`), nil, "app", "the answer is not from this app", health.Failed},
		{"failed, with status 200", answering(200, `{"status":"failed","checks":[{"name":"x","state":"ok"}]}`), nil, "app", "the answer is not from this app", health.Failed},
		{"another app", health.Doctor{URL: other.URL, Key: secret}, nil, "app", "status 302, but the answer is not from this app", health.Failed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.doctor.Settings = storage.Settings{storage.HostConnection: good}
			maps.Copy(tt.doctor.Settings, tt.more)
			got := doctorOf(t, tt.doctor)[tt.check]
			if got.State != tt.state || !strings.Contains(got.Detail, tt.words) {
				t.Errorf("check %s: state %q, detail %s; want %s, with %q", tt.check, got.State, got.Detail, tt.state, tt.words)
			}
		})
	}
}

// On another machine with the app's own settings, the doctor explains how to sign in.
func TestDoctorWithoutManagedIdentity(t *testing.T) {
	none := httptest.NewServer(http.NotFoundHandler())
	defer none.Close()
	t.Setenv("IDENTITY_ENDPOINT", none.URL)
	t.Setenv("IDENTITY_HEADER", secret)
	got := doctorOf(t, health.Doctor{App: health.App{Settings: storage.Settings{
		storage.HostConnection + "__accountName": "acct", storage.HostConnection + "__credential": "managedidentity", storage.HostConnection + "__clientId": "id",
	}}})["connection AzureWebJobsStorage"]
	if got.State != health.Failed || !strings.Contains(got.Detail, "elsewhere, remove AzureWebJobsStorage__credential and AzureWebJobsStorage__clientId") {
		t.Errorf("%+v", got)
	}
}
