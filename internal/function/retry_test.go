package function_test

import (
	"net/http"
	"strings"
	"testing"
)

func TestRetryOverHTTP(t *testing.T) {
	a := newApp(t)
	var scan struct{ ID, StatusURL string }
	if w := a.ask(t, "POST", "/api/scans", countBody, &scan); w.Code != http.StatusAccepted {
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
		w := a.send(step.method, step.path, "")
		if w.Code != step.status || !strings.Contains(w.Body.String(), step.want) {
			t.Errorf("%s: %d %s, want %d with %s", step.name, w.Code, w.Body, step.status, step.want)
		}
		if kind := w.Header().Get("Content-Type"); (step.status >= 400) != (kind == "application/problem+json") {
			t.Errorf("%s: answered with %s", step.name, kind)
		}
	}
}
