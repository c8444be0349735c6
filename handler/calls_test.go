package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"tablesweep/internal/emulator"
	"tablesweep/internal/proof"
)

// documented are all calls of docs/api.md, in an order in which each succeeds. ID is the scan that the first one starts.
var documented = []struct {
	call, path, body string // path "" is the call's own
	status           int
}{
	{"POST /api/scans", "", `{"source":{"table":"Source"},"action":{"type":"count"}}`, 202},
	{"POST /api/scans/estimate", "", `{"source":{"table":"Source"},"action":{"type":"count"}}`, 200},
	{"GET /api/scans", "/api/scans?top=5", "", 200},
	{"GET /api/scans/connections", "", "", 200},
	{"GET /api/scans/connections/{name}/tables", "/api/scans/connections/AzureWebJobsStorage/tables", "", 200},
	{"GET /api/scans/{id}", "/api/scans/ID", "", 200},
	{"GET /api/scans/{id}/timeline", "/api/scans/ID/timeline", "", 200},
	{"GET /api/scans/{id}/ranges", "/api/scans/ID/ranges", "", 200},
	{"GET /api/scans/{id}/failed", "/api/scans/ID/failed?top=10&cursor=", "", 200},
	{"DELETE /api/scans/{id}", "/api/scans/ID", "", 202},
	{"POST /api/scans/{id}/retry", "/api/scans/ID/retry", "", 202},
	{"GET /api/scans/{id}/members", "/api/scans/ID/members", "", 404}, // it is no group
	{"GET /api/schedules", "", "", 200},
	{"GET /api/schedules/{name}/backups", "/api/schedules/nightly/backups", "", 404}, // there is none
	{"POST /api/catalog/records", "", `{"eid":"1","name":"A","ssn":"12,34"}`, 201},
	{"POST /api/catalog/records", "", `[{"eid":"2","name":"B"},{"eid":"3","name":"C"}]`, 200},
	{"PUT /api/catalog/records", "/api/catalog/records?eid=2", `{"eid":"2","name":"B","x":1}`, 200},
	{"PATCH /api/catalog/records", "/api/catalog/records?eid=2", `{"x":null}`, 200},
	{"GET /api/catalog/records", "", "", 200},
	{"GET /api/catalog/records", "/api/catalog/records?eid=2&row_from=A&row_to=Z&top=5", "", 200},
	{"GET /api/catalog/count", "/api/catalog/count?eid=2", "", 200},
	{"DELETE /api/catalog/records", "/api/catalog/records?eid=3", "", 200},
	{"GET /api/catalog/records", "/api/catalog/records?eid=1&eid=2", "", 200},
	{"GET /api/catalog/records", "/api/catalog/records?ssn=12%2C34", "", 200},
	{"DELETE /api/catalog/records", "/api/catalog/records?ssn=12%2C34", "", 200},
	{"GET /api/catalog/changes", "/api/catalog/changes?since=2h", "", 200},
	{"GET /api/catalog", "", "", 200},
	{"POST /api/log/{stream}", "/api/log?stream=a%20b%2Fc", `[{"n":1},{"n":2}]`, 201},
	{"GET /api/log/{stream}", "/api/log?stream=a%20b%2Fc&top=50&since=15m", "", 200},
	{"GET /api/log/{stream}", "/api/log/orders?after=now&top=50", "", 200},
	{"DELETE /api/log/{stream}", "/api/log?stream=a%20b%2Fc", "", 200},
	{"POST /api/log/{stream}", "/api/log/orders", `{"n":1}`, 201},
	{"DELETE /api/log/{stream}", "/api/log/orders", "", 200},
	{"GET /api/log", "/api/log?top=5&cursor=", "", 200},
	{"GET /api/console/", "", "", 200},
	{"GET /api/health", "", "", 200},
	{"GET /api/openapi.json", "", "", 200},
}

// TestDocumentedCalls sends every documented call by the local host.
func TestDocumentedCalls(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/api.md")
	proof.Must(t, err)
	missing := map[string]bool{}
	for _, found := range regexp.MustCompile("`((?:GET|POST|PUT|PATCH|DELETE) /api/[^`? ,]*)").FindAllSubmatch(text, -1) {
		missing[string(found[1])] = true
	}
	for _, d := range documented {
		delete(missing, d.call)
	}
	if len(missing) > 0 {
		t.Errorf("nobody tries %v", missing)
	}
	em, account, connection := serveEmulator(t, emulator.Options{})
	proof.Must(t, account.Table("Source").Create(t.Context()))
	if err := em.SetFaults("latency=6s on=get"); err != nil { // no step is delivered before the scan is canceled
		t.Fatal(err)
	}
	settings := map[string]string{"TABLE_CATALOG_NAME": "People", "TABLE_CATALOG_INDEX_KEYS": "eid,ssn", "TABLE_CATALOG_ROW_KEY": "name"}
	a := startApp(t, settings, "--storage", connection, "--keys=KEY")
	id := ""
	send := func(call, body string, want int) {
		t.Helper()
		method, path, _ := strings.Cut(call, " ")
		resp, text := a.send(t, method, strings.Replace(path, "ID", id, 1), strings.NewReader(body), "")
		if resp.StatusCode != want {
			t.Errorf("%s: status %d %s, want %d", call, resp.StatusCode, text, want)
		}
		if location, ok := strings.CutPrefix(resp.Header.Get("Location"), "/api/scans/"); ok {
			id = location
		}
	}
	for _, d := range documented {
		method, path, _ := strings.Cut(d.call, " ")
		if d.path != "" {
			path = d.path
		}
		send(method+" "+path, d.body, d.status)
	}
	a.stop(t)
}
