package function_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"tablesweep/internal/app/function"
	"tablesweep/internal/app/gate"
	"tablesweep/internal/app/health"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/problem"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
)

// healthOf requests the app's health, and returns its state and its checks by name.
func (a *app) healthOf(t *testing.T, status int) (whole health.State, checks map[string]health.Check) {
	t.Helper()
	w := a.send("GET", "/api/health", "")
	var report health.Report
	if err := json.Unmarshal(w.Body.Bytes(), &report); err != nil || w.Code != status {
		t.Fatalf("status %d, want %d; error %v in %s", w.Code, status, err, w.Body)
	}
	checks = map[string]health.Check{}
	for _, c := range report.Checks {
		checks[c.Name] = c
	}
	return report.Status, checks
}

// A report is at most 10 seconds old. Its status is 503 if scans cannot work.
func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		em := emulatortest.New(t, emulator.Options{})
		a := newAppVia(t, em, em.Transport())
		a.parts.Health.Root = fstest.MapFS{}
		a = appOf(a.parts)
		if whole, checks := a.healthOf(t, http.StatusOK); whole != health.Warning || checks["Maintain"].State != health.Warning {
			t.Errorf("before Maintain has run: state %s, checks %+v", whole, checks)
		}
		a.call(t, "POST", "/Maintain", timerBody, 200, "{")
		if whole, checks := a.healthOf(t, http.StatusOK); whole != health.Warning || checks["Maintain"].State != health.Warning {
			t.Errorf("within 10 s: state %s, checks %+v; want the first report again", whole, checks)
		}
		time.Sleep(10 * time.Second)
		if whole, checks := a.healthOf(t, http.StatusOK); whole != health.OK || checks["Maintain"].Detail != "ran 10s ago" {
			t.Errorf("after Maintain has run: state %s, checks %+v", whole, checks)
		}
		proof.Must(t, em.SetFaults("busy p=1 queue=tablesweep-scan-prefix"))
		time.Sleep(10 * time.Second)
		if whole, checks := a.healthOf(t, http.StatusServiceUnavailable); whole != health.Failed || checks["queue tablesweep-scan-prefix"].State != health.Failed {
			t.Errorf("with a queue that is unavailable: state %s, checks %+v", whole, checks)
		}
	})
}

// During an outage, each caller gets an answer in time, and more callers do not make the answers later.
func TestHealthOfSilentStorage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		em := emulatortest.New(t, emulator.Options{})
		via := &awayTable{Transporter: em.Transport(), table: "tablesweep", away: func(r *http.Request) error {
			<-r.Context().Done()
			return r.Context().Err()
		}}
		a := newAppVia(t, em, via)
		a.parts.Health.Root = fstest.MapFS{}
		a = appOf(a.parts)
		via.cut.Store(true)
		var watchers sync.WaitGroup
		for i := range 5 {
			watchers.Go(func() {
				time.Sleep(time.Duration(i) * time.Second)
				began := time.Now()
				a.healthOf(t, http.StatusServiceUnavailable)
				if took := time.Since(began); took > 11*time.Second {
					t.Errorf("caller %d waited %v for an answer, want at most 11s", i, took)
				}
			})
		}
		watchers.Wait()
	})
}

// Health reports wrong settings and closed gates although all other calls fail.
func TestHealthWithClosedGates(t *testing.T) {
	closed := func(reason error) *gate.Gate {
		g := gate.New()
		failed := make(chan struct{})
		go g.Prepare(t.Context(), func(context.Context) error { return reason }, func(error) { close(failed) }) // ends with the test
		<-failed
		return g
	}
	a := appOf(function.App{Gates: function.Gates{Settings: closed(problem.NotReadyf("", "setting X is missing"))}})
	if whole, checks := a.healthOf(t, http.StatusServiceUnavailable); whole != health.Failed || checks["settings"].Detail != "setting X is missing" {
		t.Errorf("with wrong settings: state %s, checks %+v", whole, checks)
	}
	full := newApp(t)
	full.parts.Gates.Catalogs = map[string]*gate.Gate{"visits": closed(problem.NotReadyf("", "its table is away"))}
	if _, checks := appOf(full.parts).healthOf(t, http.StatusOK); checks["catalog Visits"].State != health.Warning || checks["catalog Visits"].Detail != "its table is away" {
		t.Errorf("with a closed catalog's gate: checks %+v", checks)
	}
	appOf(full.parts).refuse(t, "GET", visits+"?eid=1", "", 503, "", "its table is away")
	if w := appOf(full.parts).send("POST", "/Maintain", timerBody); !strings.Contains(w.Body.String(), "its table is away") {
		t.Errorf("Maintain with a closed gate: status %d, body %s", w.Code, w.Body)
	}
}
