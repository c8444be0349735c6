package function_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"tablesweep/internal/emulator"
	"tablesweep/internal/emulator/emulatortest"
	"tablesweep/internal/engine"
	"tablesweep/internal/function"
	"tablesweep/internal/storage"
)

// newHandler returns the handler on embedded storage with an empty table Source.
func newHandler(t *testing.T) http.Handler {
	t.Helper()
	_, a := emulatortest.NewAccount(t, emulator.Options{})
	if err := a.Table("Source").Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.Options{Own: a, Accounts: map[string]*storage.Account{"AzureWebJobsStorage": a}, StateTable: "tablesweep"})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.TryPrepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	return function.Handler(function.Functions(function.App{Engine: e}), zerolog.Nop())
}

func TestRetryOverHTTP(t *testing.T) {
	h := newHandler(t)
	call := func(method, path, body string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
		return w
	}
	w := call("POST", "/api/scans", `{"source":{"table":"Source"},"action":{"type":"count"}}`)
	var scan struct{ ID, StatusURL string }
	if err := json.Unmarshal(w.Body.Bytes(), &scan); err != nil || w.Code != http.StatusAccepted {
		t.Fatalf("start: %d %s", w.Code, w.Body)
	}
	path := "/api/scans/" + scan.ID
	for _, step := range []struct {
		name, method, path string
		status             int
		want               string
	}{
		{"a running scan", "POST", path + "/retry", http.StatusAccepted, scan.StatusURL},
		{"an unknown scan", "POST", "/api/scans/0-none/retry", http.StatusNotFound, "there is no scan"},
		{"cancel", "DELETE", path, http.StatusAccepted, scan.StatusURL},
		{"cancel again", "DELETE", path, http.StatusAccepted, scan.StatusURL},
		{"is canceled", "GET", path, http.StatusOK, `"state":"canceled"`},
		{"a canceled scan", "POST", path + "/retry", http.StatusAccepted, scan.StatusURL},
		{"a second retry", "POST", path + "/retry", http.StatusAccepted, scan.StatusURL},
		{"runs again", "GET", path, http.StatusOK, `"state":"running"`},
	} {
		w := call(step.method, step.path, "")
		if w.Code != step.status || !strings.Contains(w.Body.String(), step.want) {
			t.Errorf("%s: %d %s, want %d with %s", step.name, w.Code, w.Body, step.status, step.want)
		}
		if kind := w.Header().Get("Content-Type"); (step.status >= 400) != (kind == "application/problem+json") {
			t.Errorf("%s: answered with %s", step.name, kind)
		}
	}
}
