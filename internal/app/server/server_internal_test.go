package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/app/config"
	"tablesweep/internal/app/envelope"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/problem"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/scans"
	"tablesweep/internal/storage"
)

// environment returns the settings with which the tests start the handler.
func environment(t *testing.T, more storage.Settings) storage.Settings {
	t.Helper()
	settings := storage.Settings{"AzureWebJobsStorage": emulatortest.Serve(t, emulatortest.New(t, emulator.Options{})), "TABLESWEEP_LOG_LEVEL": "error"}
	maps.Copy(settings, more)
	return settings
}

// freePort returns a port of this machine on which no process listens.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", ":0")
	proof.Must(t, err)
	defer l.Close()
	return fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
}

// started is a handler that runs in this process.
type started struct {
	url   string
	stop  context.CancelFunc
	ended chan error
}

// startServe runs Serve with the settings, and waits until the handler answers.
func startServe(t *testing.T, settings map[string]string) started {
	t.Helper()
	settings = environment(t, settings)
	port := freePort(t) // chosen last, because the storage could take the port
	if settings[portVariables[1]] == "" {
		settings[portVariables[0]] = port
	} else {
		settings[portVariables[1]] = port
	}
	ctx, stop := context.WithCancel(t.Context())
	s := started{url: "http://127.0.0.1:" + port, stop: stop, ended: make(chan error, 1)}
	go func() { s.ended <- Serve(ctx, settings, os.Stdout, os.Stderr) }()
	for {
		resp, err := http.Get(s.url + "/")
		if err == nil {
			resp.Body.Close()
			return s
		}
		select {
		case err := <-s.ended:
			t.Fatal(err)
		case <-time.After(25 * time.Millisecond): // the interval of the host's checks
		}
	}
}

// end stops the handler. The handler must end with the result that the host expects.
func (s started) end(t *testing.T) {
	t.Helper()
	s.stop()
	if err := <-s.ended; err != (Restart{}) {
		t.Errorf("the handler ended with %v, want a restart without a cause", err)
	}
}

func (s started) get(t *testing.T, path string) (int, http.Header, string) {
	t.Helper()
	resp, err := http.Get(s.url + path)
	proof.Must(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	proof.Must(t, err)
	return resp.StatusCode, resp.Header, string(body)
}

func TestServeListensOnlyOnLoopback(t *testing.T) {
	for _, name := range portVariables {
		t.Run(name, func(t *testing.T) {
			s := startServe(t, map[string]string{name: "to be set"})
			// At another address of this machine, the handler must not listen, so the port must be free there.
			l, err := net.Listen("tcp", strings.Replace(strings.TrimPrefix(s.url, "http://"), "127.0.0.1", "127.0.0.2", 1))
			if err != nil {
				t.Errorf("the handler also listens on other addresses: %v", err)
			} else {
				l.Close()
			}
			s.end(t)
		})
	}
}

// TestServeWithoutStorage starts the handler during an outage. It listens, and a waiting call is answered once the storage answers.
func TestServeWithoutStorage(t *testing.T) {
	table, queue := "127.0.0.1:"+freePort(t), "127.0.0.1:"+freePort(t)
	em := emulatortest.New(t, emulator.Options{})
	connection := fmt.Sprintf("AccountName=%[1]s;AccountKey=%[2]s;TableEndpoint=http://%[3]s/%[1]s;QueueEndpoint=http://%[4]s/%[1]s", emulator.DefaultAccount, emulator.DefaultKey, table, queue)
	s := startServe(t, map[string]string{"AzureWebJobsStorage": connection})
	answered := make(chan int, 1)
	go func() {
		status, _, _ := s.get(t, "/api/scans")
		answered <- status
	}()
	select {
	case status := <-answered:
		t.Fatalf("status %d during the outage, want 503", status)
	case <-time.After(200 * time.Millisecond):
	}
	server, err := em.Serve(t.Context(), table, queue, "127.0.0.1:0")
	proof.Must(t, err)
	defer server.Close()
	if status := <-answered; status != http.StatusOK {
		t.Errorf("status %d after the outage, want 200", status)
	}
	s.end(t)
}

// TestServeAnswersOnlyItsHost: a handler whose host has given it a secret answers only that host, and no child process inherits the secret. Without
// a secret, a handler on a developer's machine accepts only names of this machine.
func TestServeAnswersOnlyItsHost(t *testing.T) {
	for _, tt := range []struct {
		name     string
		settings map[string]string
		host     string
		secret   string
		want     int
	}{
		{"secret", map[string]string{envelope.SecretVariable: "SECRET"}, "", "", 404},
		{"right secret", map[string]string{envelope.SecretVariable: "SECRET"}, "app.example", "SECRET", 204},
		{"development", map[string]string{"AZURE_FUNCTIONS_ENVIRONMENT": "Development"}, "", "", 204},
		{"development, another name", map[string]string{"AZURE_FUNCTIONS_ENVIRONMENT": "development"}, "evil.example", "", 404},
		{"in the cloud", map[string]string{"AZURE_FUNCTIONS_ENVIRONMENT": "Production"}, "app.example", "", 204},
	} {
		t.Setenv(envelope.SecretVariable, "SECRET")
		s := startServe(t, tt.settings)
		r, err := http.NewRequest("GET", s.url+"/", nil)
		proof.Must(t, err)
		r.Host = tt.host
		r.Header.Set(envelope.HeaderSecret, tt.secret)
		resp, err := http.DefaultClient.Do(r)
		proof.Must(t, err)
		resp.Body.Close()
		if _, left := os.LookupEnv(envelope.SecretVariable); resp.StatusCode != tt.want || left {
			t.Errorf("%s: status %d, want %d; secret in the environment: %v", tt.name, resp.StatusCode, tt.want, left)
		}
		s.end(t)
	}
}

// TestServeReportsWrongSettings: every caller immediately gets an error with the setting to correct, and without secrets.
func TestServeReportsWrongSettings(t *testing.T) {
	catalog := map[string]string{"TABLE_CATALOG_NAME": "People", "TABLE_CATALOG_INDEX_KEYS": "eid", "TABLE_CATALOG_ROW_KEY": "name"}
	for _, tt := range []struct {
		name     string
		settings map[string]string
		want     string
		others   int // status of calls that the wrong setting does not concern
	}{
		{"bad settings", map[string]string{"TABLESWEEP_STATE_TABLE": "a_b", "TABLESWEEP_LOG_LEVEL": "loud"}, "TABLESWEEP_STATE_TABLE", 503},
		{"wrong key", map[string]string{"AzureWebJobsStorage": "AccountName=devstoreaccount1;AccountKey=c2VjcmV0;TableEndpoint=ENDPOINT"}, "AzureWebJobsStorage", 503},
		{"a catalog's wrong key", map[string]string{"AZURE_STORAGE_CONNECTION_STRING": "AccountName=devstoreaccount1;AccountKey=c2VjcmV0;TableEndpoint=ENDPOINT"}, "AZURE_STORAGE_CONNECTION_STRING", 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			good := environment(t, nil)["AzureWebJobsStorage"]
			_, endpoint, _ := strings.Cut(good, "TableEndpoint=")
			for name, v := range tt.settings {
				tt.settings[name] = strings.Replace(v, "ENDPOINT", endpoint, 1)
			}
			maps.Copy(tt.settings, catalog)
			s := startServe(t, tt.settings)
			path := "/api/scans"
			if tt.others == 200 {
				path = "/api/catalog/records?eid=1"
			}
			status, header, body := s.get(t, path)
			if status != 503 || header.Get("Retry-After") == "" || !strings.Contains(body, tt.want) || strings.Contains(body, "c2VjcmV0") {
				t.Errorf("status %d, header %v, body %s; want 503 with %s", status, header, body, tt.want)
			}
			if tt.others == 200 {
				if status, _, body := s.get(t, "/api/scans"); status != 200 {
					t.Errorf("a call that the setting does not concern: status %d, body %s; want 200", status, body)
				}
			}
			s.end(t)
		})
	}
}

func TestServeEnds(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	proof.Must(t, err)
	defer taken.Close()
	_, port, _ := strings.Cut(taken.Addr().String(), ":")
	settings := environment(t, map[string]string{portVariables[0]: port})
	synctest.Test(t, func(t *testing.T) { // in virtual time, which skips the pause
		start := time.Now()
		err := Serve(t.Context(), settings, os.Stdout, os.Stderr)
		var again Restart
		if !errors.As(err, &again) || again.Cause == nil || time.Since(start) < startPause {
			t.Errorf("with a used port: error %v after %v, want a restart with its cause after a pause", err, time.Since(start))
		}
	})
}

// TestSchedulesInSettingsStart: when a schedule in the settings is due by the service's clock, the app's Maintain starts its scan.
func TestSchedulesInSettingsStart(t *testing.T) {
	var ahead atomic.Int64 // time by which the service's clock is ahead
	em := emulatortest.New(t, emulator.Options{Clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
	connection := emulatortest.Serve(t, em)
	s := startServe(t, map[string]string{
		"AzureWebJobsStorage":  connection,
		"TABLESWEEP_SCHEDULES": `[{"name":"often","cron":"0 * * * * *","request":{"source":{"table":"Source"},"action":{"type":"count"}}}]`,
	})
	defer s.end(t)
	list := ""
	for range 10 {
		resp, err := http.Post(s.url+"/Maintain", envelope.ContentType, bytes.NewReader(envelope.Timer("Maintain", envelope.Status{}, false)))
		proof.Must(t, err)
		resp.Body.Close()
		if _, _, list = s.get(t, "/api/schedules"); strings.Contains(list, `"last":{`) {
			return
		}
		ahead.Add(int64(time.Minute))
	}
	t.Errorf("no scan was started; the list is %s", list)
}

// TestScansCannotWriteToTablesInSettings: a scan must not write to the tables of the event log, to the tables of catalogs in any account, or to the
// container with the deployed app.
func TestScansCannotWriteToTablesInSettings(t *testing.T) {
	settings := environment(t, map[string]string{
		"TABLE_CATALOG_NAME": "People", "TABLE_CATALOG_INDEX_KEYS": "eid", "TABLE_CATALOG_ROW_KEY": "name",
		"TABLESWEEP_CATALOGS":    `{"visits":{"table":"Visits","indexKeys":"eid","rowKey":"at","wal":"VisitLog","connection":"OTHER"}}`,
		"TABLESWEEP_CONNECTIONS": "AzureWebJobsStorage,OTHER,AGAIN", "OTHER__accountName": "other",
		"AGAIN":                    "AccountName=other;AccountKey=c2VjcmV0",
		config.DeploymentContainer: "https://other.blob.core.windows.net/packages",
	})
	c, err := config.Load(settings)
	proof.Must(t, err)
	app, _, err := newApp(c, settings)
	proof.Must(t, err)
	for _, ref := range []scans.TableRef{
		{Table: "tablesweeplog"}, {Table: "people"}, {Table: "PeopleWAL"}, {Table: "Visits", Connection: "OTHER"}, {Table: "VisitLog", Connection: "AGAIN"}, {Container: "packages", Connection: "AGAIN"},
	} {
		_, err := app.Engine.Start(t.Context(), scans.Request{Source: scans.TableRef{Table: "Source"}, Action: scans.Action{Type: scans.Copy, Destination: &ref}})
		if problem.Of(err).Kind != problem.Invalid || !strings.Contains(err.Error(), "this app") {
			t.Errorf("a copy into %+v: error %v, want a refusal", ref, err)
		}
	}
}

func TestLogByLevel(t *testing.T) {
	var stdout, stderr strings.Builder
	log := newLog(&stdout, &stderr, zerolog.InfoLevel)
	log.Debug().Msg("d")
	log.Info().Msg("i")
	log.Warn().Msg("w")
	log.Error().Msg("e")
	if n, m := strings.Count(stdout.String(), "\n"), strings.Count(stderr.String(), "\n"); n != 1 || m != 2 || !strings.Contains(stdout.String(), `"i"`) || !strings.Contains(stderr.String(), `"level":"warn"`) {
		t.Errorf("got stdout %s, stderr %s", stdout.String(), stderr.String())
	}
}
