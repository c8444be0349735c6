package main

import (
	"bufio"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"

	"tablesweep/internal/emulator"
	"tablesweep/internal/proof"
)

// localApp is the app of this repository, run by the local host in processes of its own.
type localApp struct {
	url string
	out *bufio.Reader
	cmd *exec.Cmd
	log strings.Builder
}

// startApp runs the app with settings, and returns when it is ready.
func startApp(t *testing.T, settings map[string]string, args ...string) *localApp {
	t.Helper()
	a := &localApp{cmd: exec.CommandContext(t.Context(), "tablesweep", append([]string{"local", "--root", "..", "--addr", "127.0.0.1:0"}, args...)...)}
	a.cmd.Env = os.Environ()
	for name, value := range settings {
		a.cmd.Env = append(a.cmd.Env, name+"="+value)
	}
	a.cmd.Stderr = &a.log
	pipe, err := a.cmd.StdoutPipe()
	proof.Must(t, err)
	proof.Must(t, a.cmd.Start())
	a.out = bufio.NewReader(pipe)
	line, err := a.out.ReadString('\n')
	if err != nil {
		_ = a.cmd.Wait()
		t.Fatalf("not ready; stderr:\n%s", &a.log)
	}
	a.url = strings.TrimPrefix(strings.TrimSpace(line), "ready ")
	return a
}

func (a *localApp) stop(t *testing.T) {
	t.Helper()
	if err := a.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	if err := a.cmd.Wait(); err != nil {
		t.Errorf("after an interrupt: %v; stderr:\n%s", err, &a.log)
	}
}

// call sends a request with the function key in the query, and wants the status and
// the body.
func (a *localApp) call(t *testing.T, method, path string, query url.Values, body string, status int, want string) string {
	t.Helper()
	if query == nil {
		query = url.Values{}
	}
	query.Set("code", "KEY")
	resp, got := a.send(t, method, path+"?"+query.Encode(), strings.NewReader(body), "x-functions-key: ")
	got = strings.TrimSpace(got)
	if resp.StatusCode != status || !strings.HasPrefix(got, want) {
		t.Errorf("%s %s?%s: status %d, body %s\nwant %d and %s", method, path, query.Encode(), resp.StatusCode, got, status, want)
	}
	if kind := resp.Header.Get("Content-Type"); (kind == "application/problem+json") != (status >= 400) {
		t.Errorf("%s %s: Content-Type %q with status %d", method, path, kind, resp.StatusCode)
	}
	return got
}

// TestCatalogInTheApp finds a record through the host, by several handler processes, and then under other schemas.
func TestCatalogInTheApp(t *testing.T) {
	t.Parallel()
	_, _, connection := serveEmulator(t, emulator.Options{})
	settings := map[string]string{
		"TABLE_CATALOG_NAME": "People", "TABLE_CATALOG_INDEX_KEYS": "eid,npi,ssn:digits", "TABLE_CATALOG_ROW_KEY": "lastname",
		"TABLESWEEP_CATALOGS": `{"visits":{"table":"Visits","indexKeys":"eid","rowKey":"at:newest"}}`,
	}
	args := []string{"--storage", connection, "--instances", "2", "--keys=KEY"}
	a := startApp(t, settings, args...)
	const (
		people = "/api/catalog/records"
		faux   = `{"eid":"F314","lastname":"O'Hara/Łódź","npi":1414213562,"score":3.0,"ssn":"123-45-6789"}`
	)
	all := func(records string) string { return `{"records":[` + records + `],"meta":[` }
	a.call(t, "POST", people, nil, faux, 201, faux)
	for key, value := range map[string]string{"eid": "f314", "npi": "1414213562", "ssn": "123 45 6789"} {
		a.call(t, "GET", people, url.Values{key: {value}, "row_from": {"o'hara/ł"}}, "", 200, all(faux))
	}
	a.call(t, "POST", "/api/catalog/visits/records", nil, `{"at":"2026-02-03","eid":"F314"}`, 201, `{"at"`)
	a.stop(t)

	// A catalog of another schema is refused, and the others work. The old schema is taken again.
	settings["TABLE_CATALOG_INDEX_KEYS"] = "eid,npi"
	a = startApp(t, settings, args...)
	answer := a.call(t, "GET", people, url.Values{"eid": {"F314"}}, "", 409, `{"title":"Conflict"`)
	if !strings.Contains(answer, "TABLE_CATALOG_INDEX_KEYS") || !strings.Contains(answer, "tablesweep catalog migrate") {
		t.Errorf("another schema: %s", answer)
	}
	a.call(t, "GET", "/api/catalog/visits/records", url.Values{"eid": {"f314"}}, "", 200, all(`{"at":"2026-02-03","eid":"F314"}`))
	a.stop(t)
	settings["TABLE_CATALOG_INDEX_KEYS"] = "EID,NPI:lower,ssn:digits"
	a = startApp(t, settings, args...)
	a.call(t, "GET", people, url.Values{"EID": {"f314"}}, "", 200, all(faux))
	a.stop(t)
}
