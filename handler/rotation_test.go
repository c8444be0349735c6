package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
)

// waitForAnswer repeats a call until the answer has the status and contains all of the parts, almost until the test's deadline.
func (a *localApp) waitForAnswer(t *testing.T, method, path string, status int, parts ...string) {
	t.Helper()
	got, text := 0, ""
	end, limited := t.Deadline()
	for ; !limited || time.Until(end) > 10*time.Second; time.Sleep(200 * time.Millisecond) {
		r, err := http.NewRequestWithContext(t.Context(), method, a.url+path, nil)
		proof.Must(t, err)
		r.Header.Set("x-functions-key", "KEY")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			text = err.Error()
			continue
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		got, text = resp.StatusCode, string(body)
		has := got == status
		for _, part := range parts {
			has = has && strings.Contains(text, part)
		}
		if has {
			return
		}
	}
	t.Fatalf("%s %s answers %d %s, want %d with %q", method, path, got, text, status, parts)
}

// TestKeysChange changes the key of a data account during a scan, and then the key of the app's own storage. A SAS also expires. Each error names the
// connection, and has the service's own error. With the right key, a retry completes the scan.
func TestKeysChange(t *testing.T) {
	t.Parallel()
	own, _, ownConnection := serveEmulator(t, emulator.Options{})
	data, account, dataConnection := serveEmulator(t, emulator.Options{Account: "data", Latency: 20 * time.Millisecond})
	emulatortest.Table(t, account, "Orders", manyRows(12, 10))
	ended := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Ms-Error-Code", "AuthenticationFailed")
		w.Header().Set("X-Ms-Request-Id", "1")
		w.Header().Set("X-Ms-Client-Request-Id", r.Header.Get("X-Ms-Client-Request-Id"))
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"odata.error":{"code":"AuthenticationFailed","message":{"lang":"en-US","value":"Server failed to authenticate the request."}}}`)
	}))
	t.Cleanup(ended.Close)
	a := startApp(t, map[string]string{
		"DATA": dataConnection, "TABLESWEEP_CONNECTIONS": "AzureWebJobsStorage,DATA,ENDED",
		"ENDED": "TableEndpoint=" + ended.URL + "/ended;SharedAccessSignature=sv=2024-11-04&se=2026-01-01T00:00:00Z&sig=c2VjcmV0",
	}, "--storage", ownConnection, "--keys=KEY")
	defer a.stop(t)
	start := func(connection string, status int) (text string) {
		resp, text := a.send(t, "POST", "/api/scans", strings.NewReader(`{"source":{"table":"Orders","connection":"`+connection+`"},"action":{"type":"count"},"strategy":"serial","segmentSize":2,"segmentsPerInvocation":1}`), "")
		if resp.StatusCode != status {
			t.Fatalf("starting a scan: got status %d, %s", resp.StatusCode, text)
		}
		return text
	}
	if text := start("ENDED", 400); !strings.Contains(text, "the SAS expired at 2026-01-01T00:00:00Z") || !strings.Contains(text, "ENDED") || strings.Contains(text, "c2VjcmV0") {
		t.Errorf("an expired SAS: %s", text)
	}

	var scan struct{ ID string }
	proof.Must(t, json.Unmarshal([]byte(start("DATA", 202)), &scan))
	path := "/api/scans/" + cmp.Or(scan.ID, "none")
	a.waitForAnswer(t, "GET", path, 200, `"phase":"working"`)
	proof.Must(t, data.SetKey(emulator.NewKey()))
	a.waitForAnswer(t, "GET", path, 200, `"state":"failed"`, "of DATA: 403 AuthenticationFailed")
	proof.Must(t, data.SetKey(emulator.DefaultKey))
	if resp, text := a.send(t, "POST", path+"/retry", strings.NewReader(""), ""); resp.StatusCode >= 300 {
		t.Fatal(text)
	}
	a.waitForAnswer(t, "GET", path, 200, `"state":"succeeded"`, `"scanned":120`)

	proof.Must(t, own.SetKey(emulator.NewKey()))
	a.waitForAnswer(t, "GET", "/api/scans", 503, "AzureWebJobsStorage: 403 AuthenticationFailed")
	a.waitForAnswer(t, "GET", "/api/health", 503, `"status":"failed"`, "AzureWebJobsStorage: 403 AuthenticationFailed")
	proof.Must(t, own.SetKey(emulator.DefaultKey))
	a.waitForAnswer(t, "GET", path, 200, `"state":"succeeded"`)
}
