package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
)

// localApp is the app of this repository. The local host runs it in separate processes.
type localApp struct {
	url string
	out *bufio.Reader
	cmd *exec.Cmd
	log buffer
}

// startApp starts the app with the settings, and waits until it is ready.
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

// send sends a request with the function key as a header, and reads the answer.
func (a *localApp) send(t *testing.T, method, path string, body io.Reader, header string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, a.url+path, body)
	proof.Must(t, err)
	r.Header.Set("x-functions-key", "KEY")
	if name, value, ok := strings.Cut(header, ": "); ok {
		r.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(fmt.Errorf("%w; stderr:\n%s", err, &a.log))
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	proof.Must(t, err)
	return resp, string(text)
}

// TestApp runs the app of this repository as a user does, with two processes. Callers reach its HTTP functions only through the local host, and only with the
// key.
func TestApp(t *testing.T) {
	t.Parallel()
	_, _, connection := serveEmulator(t, emulator.Options{})
	settings := map[string]string{"TABLE_CATALOG_NAME": "People", "TABLE_CATALOG_INDEX_KEYS": "eid,npi", "TABLE_CATALOG_ROW_KEY": "name"}
	args := []string{"--storage", connection, "--instances", "2", "--keys=KEY"}
	a := startApp(t, settings, args...)
	if line, err := a.out.ReadString('\n'); line != "console "+a.url+"/api/console/\n" {
		t.Errorf("the second line on stdout is %q, %v; want the console's address", line, err)
	}
	const event, timer, record = `{"n":1}`, `{"Data":{"timer":"{}"}}`, `{"eid":"1","name":"O'Hara/Łódź","npi":12}`
	for _, tt := range []struct {
		method, path, body string
		header             string // NAME: VALUE
		status             int
		want               string // expected in the body or the header Allow
	}{
		{"POST", "/api/log?stream=x%2Fy%5Cz%25", event, "", 201, `"id"`},
		{"GET", "/api/log?stream=x%2Fy%5Cz%25", "", "", 200, event},
		{"POST", "/api/log/a%23b", event, "", 201, ""},
		{"POST", "/api/log/a%2Fb", event, "", 400, "/api/log?stream="},
		{"POST", "/api/log?stream=a", strings.Repeat(" ", 9<<20), "", 413, ""},
		{"POST", "/api/log/..%5C..%5CMaintain", timer, "", 400, ""},
		{"POST", "/api/log/%252e%252e/%252e%252e/Maintain", timer, "", 400, ""},
		{"POST", "/api/console/..%2F..%2FMaintain", timer, "", 405, ""},
		{"POST", "/Maintain", timer, "", 404, ""},
		{"POST", "/api/catalog/records", record, "", 201, record},
		{"GET", "/API/Catalog/RECORDS/?npi=12&row_from=o'hara%2F%C5%82", "", "", 200, record},
		{"PUT", "/api/scans", "{}", "", 405, "GET, POST, HEAD, OPTIONS"},
		{"GET", "/api/scans", "", "x-functions-key: ", 401, ""},
		{"GET", "/api/scans?code=KEY", "", "x-functions-key: ", 200, ""},
		{"GET", "/api/console/", "", "x-functions-key: ", 200, "<!doctype html>"},
		{"GET", "/api/console/..%2Fscans", "", "x-functions-key: ", 404, ""},
	} {
		resp, body := a.send(t, tt.method, tt.path, strings.NewReader(tt.body), tt.header)
		if resp.StatusCode != tt.status || !strings.Contains(body+resp.Header.Get("Allow"), tt.want) {
			t.Errorf("%s %s: status %d, Allow %q, %s; want %d and %s", tt.method, tt.path, resp.StatusCode, resp.Header.Get("Allow"), body, tt.status, tt.want)
		}
	}
	inner := regexp.MustCompile(`url=(http://[^ \n]*)`).FindStringSubmatch(a.log.String()) // the address where a process listens
	if inner == nil {
		t.Fatal(&a.log)
	}
	resp, err := http.Get(inner[1] + "/api/scans") // directly, not through the host
	proof.Must(t, err)
	if resp.Body.Close(); resp.StatusCode != http.StatusNotFound {
		t.Errorf("a request that bypasses the host got %s, want a refusal", resp.Status)
	}
	a.stop(t)
	if rest, _ := io.ReadAll(a.out); len(rest) > 0 {
		t.Errorf("stdout has more lines: %q", rest)
	}
	if strings.Contains(a.log.String(), "KEY") {
		t.Errorf("the log has the function key:\n%s", &a.log)
	}

	settings["TABLE_CATALOG_INDEX_KEYS"] = "eid" // a catalog of another schema is refused
	a = startApp(t, settings, args...)
	if resp, text := a.send(t, "GET", "/api/catalog/records", nil, ""); resp.StatusCode != 409 || !strings.Contains(text, "tablesweep catalog migrate") {
		t.Errorf("a catalog of another schema: status %d, %s", resp.StatusCode, text)
	}
	a.stop(t)
}
