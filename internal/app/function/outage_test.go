package function_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"tablesweep/internal/app/gate"
	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

// awayTime is how long calls wait for unavailable storage.
const awayTime = 25 * time.Second

// awayTable is a transport by which one table, or all of them, cannot be reached once the field `cut` is set.
type awayTable struct {
	policy.Transporter
	table string
	away  func(*http.Request) error
	cut   atomic.Bool
}

func (a *awayTable) Do(r *http.Request) (*http.Response, error) {
	if a.cut.Load() && strings.Contains(r.URL.Path, a.table) {
		return nil, a.away(r)
	}
	return a.Transporter.Do(r)
}

// calls contains a call of each kind for each function, and the table that is unavailable, or "" for all tables. ID stands for a scan's id.
var calls = []struct{ method, path, body, table string }{
	{"POST", "/api/scans", copyBody, "Source"},
	{"POST", "/api/scans/estimate", copyBody, "Source"},
	{"POST", "/api/scans", copyBody, "Tables"}, // which creates the destination
	{"POST", "/api/scans/estimate", copyBody, "Target"},
	{"POST", "/api/scans", countBody, "tablesweep"},
	{"POST", "/api/scans", countBody, ""},
	{"POST", "/api/scans/estimate", countBody, ""},
	{"GET", "/api/scans", "", ""},
	{"GET", "/api/scans/ID", "", ""},
	{"GET", "/api/scans/ID/timeline", "", ""},
	{"GET", "/api/scans/ID/ranges", "", ""},
	{"GET", "/api/scans/ID/failed", "", ""},
	{"DELETE", "/api/scans/ID", "", ""},
	{"POST", "/api/scans/ID/retry", "", ""},
	{"GET", "/api/scans/connections/OTHER/tables", "", ""},
	{"GET", "/api/scans/connections/OTHER/queues", "", ""},
	{"GET", "/api/schedules", "", ""},
	{"GET", "/api/schedules/x/backups", "", ""},
	{"GET", people + "?eid=1", "", ""},
	{"GET", "/api/catalog/count", "", ""},
	{"GET", "/api/catalog/changes", "", ""},
	{"POST", people, `{"eid":"1","lastname":"A"}`, ""},
	{"PUT", people, `{"eid":"1","lastname":"A"}`, ""},
	{"PATCH", people + "?eid=1", `{"lastname":"A"}`, ""},
	{"DELETE", people + "?eid=1", "", ""},
	{"GET", "/api/log/stream", "", ""},
	{"POST", "/api/log/stream", `{"event":1}`, ""},
	{"POST", "/ScanPrefix", `{"v":1,"scan":"ID","step":{"range":{}}}`, ""},
	{"POST", "/ScanPartition", `{"v":1,"scan":"ID","step":{"range":{"p":"p"}}}`, ""},
	{"POST", "/CopyRows", `{"v":1,"scan":"ID","rows":true,"step":{"range":{}}}`, ""},
	{"POST", "/Maintain", "{}", ""},
}

// TestCallsDuringAnOutage: after 25 s, every call gets an error with the account that gives no good answer, and the reason. A message and a timer
// fail in time for the host.
func TestCallsDuringAnOutage(t *testing.T) {
	for why, away := range map[string]func(*http.Request) error{
		": connection refused": func(*http.Request) error { return syscall.ECONNREFUSED },
		": no such host":       func(*http.Request) error { return &net.DNSError{IsNotFound: true} },
		"":                     func(r *http.Request) error { <-r.Context().Done(); return r.Context().Err() },
	} {
		for i, tt := range calls {
			if why == ": no such host" && i > 1 {
				continue
			}
			t.Run(fmt.Sprintf("%s %s%s %s", why, tt.method, tt.path, tt.table), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					em := emulatortest.New(t, emulator.Options{})
					via := &awayTable{Transporter: em.Transport(), table: tt.table, away: away}
					a := newAppVia(t, em, via)
					var scan struct{ ID string }
					proof.Must(t, json.Unmarshal([]byte(a.call(t, "POST", "/api/scans", countBody, http.StatusAccepted, "{")), &scan))
					time.Sleep(time.Minute) // the outage before it is forgotten
					via.cut.Store(true)
					began := time.Now()
					if strings.HasPrefix(tt.path, "/api/") {
						got := a.call(t, tt.method, strings.Replace(tt.path, "ID", scan.ID, 1), tt.body, http.StatusServiceUnavailable, "{", "Idempotency-Key", "k")
						if took := time.Since(began); took < awayTime || took > awayTime+5*time.Second || !regexp.MustCompile(`"detail":"the storage of \w+\.\w+\.emulator\.invalid has not answered for \d+ s`+why+`"`).MatchString(got) {
							t.Errorf("after %v: %s\nwant the host's name and %q after %v", took, got, why, awayTime)
						}
						return
					}
					body, _ := json.Marshal(strings.Replace(tt.body, "ID", scan.ID, 1))
					w := a.send(tt.method, tt.path, fmt.Sprintf(`{"Data":{"item":%s}}`, body))
					if took := time.Since(began); took > 9*time.Minute+30*time.Second || w.Code < 500 {
						t.Errorf("%d after %v, want a failure well before functionTimeout", w.Code, took)
					}
					time.Sleep(10 * time.Minute) // requests without a caller end by their own limits
				})
			})
		}
	}
}

// TestSlowWriteIsNotEnded: a write continues as long as the storage answers, however long it takes.
func TestSlowWriteIsNotEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		em := emulatortest.New(t, emulator.Options{})
		a := newAppVia(t, em, em.Transport())
		proof.Must(t, em.SetFaults("latency=9s"))
		began := time.Now()
		a.call(t, "POST", people, `[{"eid":"1","lastname":"A"},{"eid":"2","lastname":"B"}]`, http.StatusOK, "{")
		if took := time.Since(began); took < awayTime {
			t.Errorf("the write took %v, want more than %v", took, awayTime)
		}
	})
}

// TestCallsBeforeStorageAnswers: an app that has never been ready answers with the same error, after the same time.
func TestCallsBeforeStorageAnswers(t *testing.T) {
	for why, away := range map[string]func(*http.Request) error{
		"connection refused":   func(*http.Request) error { return syscall.ECONNREFUSED },
		"no answer within 10s": func(r *http.Request) error { <-r.Context().Done(); return r.Context().Err() },
	} {
		synctest.Test(t, func(t *testing.T) {
			via := &awayTable{away: away}
			via.cut.Store(true)
			parts := partsOn(t, emulatortest.Open(t, emulatortest.New(t, emulator.Options{}), via))
			parts.Gates.Own = gate.New()
			ctx, end := context.WithCancel(t.Context())
			var g task.Group
			g.Go(func() error { parts.Gates.Own.Prepare(ctx, parts.Engine.TryPrepare, func(error) {}); return nil })
			began, a := time.Now(), appOf(parts)
			w := a.send("GET", "/api/scans", "")
			if took := time.Since(began); took != awayTime || w.Code != http.StatusServiceUnavailable || !regexp.MustCompile(`"detail":"the app is not ready, because its storage does not answer: .*emulator.invalid: .*`+why+`"`).MatchString(w.Body.String()) {
				t.Errorf("after %v: status %d: %s; want %q after %v", took, w.Code, w.Body, why, awayTime)
			}
			end()
			_ = g.Wait()
		})
	}
}

// TestRefusedCallsAreLogged: a 4xx answer is logged in one line at the level info. A caller that disconnects is not an error.
func TestRefusedCallsAreLogged(t *testing.T) {
	a := newApp(t)
	for _, tt := range []struct{ method, path, body, want string }{
		{"GET", "/api/scans/none", "", `"route":"/api/scans/{id}","status":404,"code":"notFound"`},
		{"POST", "/api/scans", "{}", `"route":"/api/scans","status":400,"code":"invalid"`},
		{"PUT", "/api/scans", "", `"status":405,"code":"wrongMethod"`},
		{"GET", "/api/nothing", "", `"status":404,"code":"notFound"`},
		{"GET", people + "?nothing=1", "", `"route":"/api/catalog/records","status":400,"code":"invalid"`},
	} {
		a.log.Reset()
		a.send(tt.method, tt.path, tt.body)
		if got := a.log.String(); strings.Count(got, "\n") != 1 || !strings.HasPrefix(got, `{"level":"info","invocation":"`+invocation+`","method":"`+tt.method+`",`) || !strings.Contains(got, tt.want) {
			t.Errorf("%s %s is logged as %s, want one line with %s", tt.method, tt.path, got, tt.want)
		}
	}
	a.log.Reset()
	ctx, leave := context.WithCancel(t.Context())
	leave()
	r := httptest.NewRequestWithContext(ctx, "GET", "/api/scans", nil)
	a.ServeHTTP(httptest.NewRecorder(), r)
	if got := a.log.String(); strings.Count(got, "\n") != 1 || !strings.HasPrefix(got, `{"level":"debug"`) {
		t.Errorf("a caller that has disconnected is logged as %s, want a line at debug", got)
	}
}

// While a catalog's records are being moved to another schema, the answers of its calls advise a later retry and no change of settings, and the
// log has no error.
func TestCallsDuringAMigration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newApp(t)
		moving := storage.Entity{Key: key.Key{Partition: "schema"}, Properties: []storage.Property{storage.StringProperty("Schema", "eid | lastname"), storage.StringProperty("State", "moving")}}
		proof.Must(t, a.account.Table("PeopleWAL").Write(t.Context(), storage.Op{Kind: storage.Merge, IfMatch: "*", Row: moving.Row()}))
		time.Sleep(time.Minute) // processes use a cached schema for that time
		for path, method := range map[string]string{people: "POST", people + "?eid=2": "PATCH", people + "?eid=3": "DELETE", people + "?eid=1": "GET"} {
			w := a.send(method, path, `{"eid":"1","lastname":"A"}`)
			if body := w.Body.String(); w.Code != 503 || w.Header().Get("Retry-After") == "" || !strings.Contains(body, "are being moved to the schema") {
				t.Errorf("%s %s: status %d, body %s; want 503 with the migration", method, path, w.Code, body)
			}
		}
		a.call(t, "POST", visits, `{"eid":"1","at":"2026-01-01"}`, 201, "{")
		a.call(t, "POST", "/Maintain", timerBody, 200, "{")
		if log := a.log.String(); strings.Contains(log, `"level":"error"`) {
			t.Error(log)
		}
	})
}
