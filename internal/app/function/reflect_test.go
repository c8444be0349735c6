package function_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/outagetest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/scans"
	"tablesweep/internal/storage"
)

// reflecting is a transport that answers requests about a table, or all requests, with one of [outagetest.Reflections] once begins is set.
type reflecting struct {
	policy.Transporter
	form   string
	table  atomic.Value // a string; "" for all tables
	begins atomic.Bool

	mu         sync.Mutex
	signatures []string
}

func (f *reflecting) Do(r *http.Request) (*http.Response, error) {
	what := r.URL.Path
	if r.Body != nil { // a transaction has the table's name in its body
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		what += string(text)
		r.Body = io.NopCloser(strings.NewReader(string(text)))
	}
	if !f.begins.Load() || !strings.Contains(what, f.table.Load().(string)) {
		return f.Transporter.Do(r)
	}
	f.mu.Lock()
	f.signatures = append(f.signatures, outagetest.Signatures(r)...)
	f.mu.Unlock()
	return http.ReadResponse(bufio.NewReader(strings.NewReader(outagetest.Reflections[f.form](r))), r)
}

// TestReflectedSignaturesAreHidden: the destination of a running copy, and later all of the storage, put the signature of each request into their
// answers. No answer of the app, line of the log or row of the ledger contains a signature.
func TestReflectedSignaturesAreHidden(t *testing.T) {
	testsize.WithoutRace(t)
	for n, form := range slices.Sorted(maps.Keys(outagetest.Reflections)) {
		if n%testsize.Of(6, 1) > 0 {
			continue
		}
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				em := emulatortest.New(t, emulator.Options{})
				via := &reflecting{Transporter: em.Transport(), form: form}
				via.table.Store("/Target(")
				a := newAppVia(t, em, via)
				own := emulatortest.Open(t, em, nil) // the test's own access
				texts := map[string]string{}
				request := func(method, path, body string) {
					texts[method+" "+path] += a.send(method, path, body).Body.String() + "\n"
				}
				var scan struct{ ID string }
				a.fetch(t, "POST", "/api/scans", copyBody, &scan)
				via.begins.Store(true)
				for delivery := range scans.MaxDeliveries {
					deliver(t, own, delivery+1, request)
					request("GET", "/api/scans", "")
					request("GET", "/api/health", "")
					time.Sleep(2 * time.Second)
				}
				for _, path := range []string{"", "/failed", "/ranges", "/timeline"} {
					request("GET", "/api/scans/"+scan.ID+path, "")
				}
				if !strings.Contains(fmt.Sprint(texts), scan.ID) {
					t.Errorf("no answer contains the scan: %v", texts)
				}
				for _, row := range emulatortest.Rows(t, own.Table("tablesweep")) {
					for _, p := range row.Properties {
						texts["ledger"] += p.Text() + "\n"
						if p.Type == storage.Binary {
							texts["ledger"] += string(row.Bytes(p.Name)) + "\n"
						}
					}
				}
				via.table.Store("")
				for i, call := range []string{
					"GET /api/health", "GET /api/scans", "GET /api/scans/connections/OTHER/tables", "GET /api/scans/connections/OTHER/queues", "GET /api/schedules", "GET " + people + "?eid=1",
					"GET /api/catalog/count", "GET /api/log/orders", "GET /api/log", "POST /api/scans", "POST /api/scans/estimate", "POST " + people, "POST /api/log/orders",
					"GET /api/catalog", "GET /api/catalog/changes", "GET /api/catalog/changes?after=now", "PUT " + people, "PATCH " + people + "?eid=1", "DELETE " + people + "?eid=1", "DELETE /api/log/orders",
					"GET " + people + "/" + strings.Repeat("0", 64), "PUT " + people + "/" + strings.Repeat("0", 64), "DELETE " + people + "/" + strings.Repeat("0", 64),
					"GET /api/scans/" + scan.ID, "GET /api/scans/" + scan.ID + "/members", "POST /api/scans/" + scan.ID + "/retry", "DELETE /api/scans/" + scan.ID,
				} {
					if (i+n/3)%testsize.Of(3, 1) > 0 {
						continue
					}
					method, path, _ := strings.Cut(call, " ")
					body := ""
					switch {
					case call == "POST /api/scans", call == "POST /api/scans/estimate":
						body = copyBody
					case method[0] == 'P' && !strings.HasPrefix(path, "/api/scans/"): // POST, PUT, PATCH
						body = `{"eid":"1","lastname":"A"}`
					}
					request(method, path, body)
				}
				request("POST", "/Maintain", timerBody)
				texts["log"] = a.log.String()
				via.mu.Lock()
				defer via.mu.Unlock()
				if len(via.signatures) < 20 {
					t.Errorf("only %d requests were reflected, want 20", len(via.signatures))
				}
				for what, text := range texts {
					if outagetest.Repeats(text, via.signatures) {
						t.Errorf("%s: the signature is in\n%s", what, text)
					}
				}
			})
		})
	}
}

// deliver calls the functions with the messages of the app's queues.
func deliver(t *testing.T, own *storage.Account, delivery int, request func(method, path, body string)) {
	t.Helper()
	for _, function := range []string{scans.ScanPrefix, scans.CopyRows} {
		q, err := own.Queue(scans.Queues[function])
		proof.Must(t, err)
		messages, err := q.Get(t.Context(), 8, time.Second)
		proof.Must(t, err)
		for _, m := range messages {
			body, _ := base64.StdEncoding.DecodeString(m.Text)
			envelope, _ := json.Marshal(map[string]any{"Data": map[string]string{"message": string(body)}, "Metadata": map[string]string{"DequeueCount": fmt.Sprint(delivery)}})
			request("POST", "/"+function, string(envelope))
		}
	}
}
