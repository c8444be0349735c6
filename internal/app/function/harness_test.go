package function_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"strings"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"tablesweep/internal/app/function"
	"tablesweep/internal/app/health"
	"tablesweep/internal/catalog"
	"tablesweep/internal/catalog/index"
	"tablesweep/internal/key"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/scans"
	"tablesweep/internal/scans/engine"
	"tablesweep/internal/storage"
	"tablesweep/internal/stream/logtail"
)

// Bodies and paths of the tests' requests.
const (
	people = "/api/catalog/records"
	visits = "/api/catalog/visits/records"

	countBody = `{"source":{"table":"Source"},"action":{"type":"count"}}`
	copyBody  = `{"source":{"table":"Source"},"action":{"type":"copy","destination":{"table":"Target"}}}`
	timerBody = `{"Data":{"timer":"{}"},"Metadata":{}}`

	invocation = "69d26e0c-3c8c-4c2c-9e53-30a9e8d4c5a1" // the id of every request except deletions
)

// app is the custom handler on embedded storage that contains the table Source with three rows.
type app struct {
	http.Handler
	parts   function.App
	account *storage.Account
	log     bytes.Buffer
	tables  sync.Map // names of the tables that requests read or wrote
}

// watched is a transport that records which tables are read or written.
type watched struct {
	policy.Transporter
	tables *sync.Map
}

func (w watched) Do(r *http.Request) (*http.Response, error) {
	table, _, _ := strings.Cut(path.Base(r.URL.Path), "(")
	w.tables.Store(table, true)
	return w.Transporter.Do(r)
}

// appOf returns the custom handler of an app that has only the given parts.
func appOf(parts function.App) *app {
	return &app{Handler: function.Handler(function.Functions(parts), function.Host{}, zerolog.Nop()), parts: parts}
}

func newApp(t *testing.T) *app {
	t.Helper()
	em := emulatortest.New(t, emulator.Options{})
	return newAppVia(t, em, em.Transport())
}

// newAppVia is newApp with the given transport to the embedded storage.
func newAppVia(t *testing.T, em *emulator.Emulator, via policy.Transporter) *app {
	t.Helper()
	a := &app{}
	a.account = emulatortest.Open(t, em, watched{via, &a.tables})
	a.parts = partsOn(t, a.account)
	source := a.account.Table("Source")
	err := errors.Join(a.parts.Engine.TryPrepare(t.Context()), a.parts.Log.Prepare(t.Context()), source.Create(t.Context()))
	for _, c := range a.parts.Catalogs {
		err = errors.Join(err, c.Prepare(t.Context()))
	}
	for i := range 3 {
		err = errors.Join(err, source.Write(t.Context(), storage.Op{Row: storage.Row{Key: key.Key{Partition: fmt.Sprint(i)}}}))
	}
	proof.Must(t, err)
	a.Handler = function.Handler(function.Functions(a.parts), function.Host{}, zerolog.New(zerolog.SyncWriter(&a.log)))
	return a
}

// partsOn returns the parts of an app on an account that need not be prepared. The app has two catalogs: a default one,
// and visits, whose newest records come first. Scans can also use the account under the name OTHER.
func partsOn(t *testing.T, a *storage.Account) function.App {
	t.Helper()
	e, err := engine.New(scans.Options{Own: a, Accounts: map[string]*storage.Account{"AzureWebJobsStorage": a, "OTHER": a}, StateTable: "tablesweep"})
	proof.Must(t, err)
	checked := health.App{Own: a, StateTable: "tablesweep", Root: os.DirFS(root)}
	return function.App{Engine: *e, Health: checked, Log: logtail.New(logtail.Options{Table: a.Table("log")}), Catalogs: function.Catalogs{
		"":       newCatalog(t, a, "People", "eid,npi,ssn:digits", "lastname"),
		"visits": newCatalog(t, a, "Visits", "eid", "at:newest"),
	}}
}

func newCatalog(t *testing.T, a *storage.Account, table, keys, row string) *catalog.Catalog {
	t.Helper()
	schema, err := index.Parse(keys, row)
	proof.Must(t, err)
	c := catalog.New(catalog.Options{Name: table, Index: a.Table(table), Log: a.Table(table + "WAL"), Schema: schema})
	t.Cleanup(c.Close)
	return c
}

func (a *app) send(method, path, body string, header ...string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	id := invocation
	if method == http.MethodDelete {
		id = uuid.NewString() // with the same id, it would be the previous deletion again
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	if r.Header.Get("X-Azure-Functions-InvocationId") == "" {
		r.Header.Set("X-Azure-Functions-InvocationId", id)
	}
	a.ServeHTTP(w, r)
	return w
}

// fetch sends a request, and decodes the JSON answer into v unless v is nil.
func (a *app) fetch(t *testing.T, method, path, body string, v any) *httptest.ResponseRecorder {
	t.Helper()
	w := a.send(method, path, body)
	if v != nil {
		if err := json.Unmarshal(w.Body.Bytes(), v); err != nil {
			t.Fatalf("%s %s: %v in %s", method, path, err, w.Body)
		}
	}
	return w
}

// call sends a request, and checks the answer's status and the beginning of its body.
func (a *app) call(t *testing.T, method, path, body string, status int, want string, header ...string) string {
	t.Helper()
	w := a.send(method, path, body, header...)
	got := strings.TrimSpace(w.Body.String())
	if w.Code != status || !strings.HasPrefix(got, want) {
		t.Errorf("%s %s: status %d, body %.300s\nwant %d and %.300s", method, path, w.Code, got, status, want)
	}
	if kind := w.Header().Get("Content-Type"); (kind == "application/problem+json") != (status >= 400) {
		t.Errorf("%s %s: Content-Type %q with status %d", method, path, kind, w.Code)
	}
	if h := w.Header(); h.Get("Cache-Control") != "no-store" || h.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%s %s: header %v, want no-store and nosniff", method, path, h)
	}
	return got
}

// refuse sends a request, and checks the problem in the answer.
func (a *app) refuse(t *testing.T, method, path, body string, status int, field, detail string) {
	t.Helper()
	var p struct {
		Status        int
		Field, Detail string
	}
	got := a.call(t, method, path, body, status, "{")
	proof.Must(t, json.Unmarshal([]byte(got), &p))
	if p.Status != status || p.Field != field || !strings.Contains(p.Detail, detail) {
		t.Errorf("status %d, field %q, detail %q in the body; want %d, %q and %q", p.Status, p.Field, p.Detail, status, field, detail)
	}
}
