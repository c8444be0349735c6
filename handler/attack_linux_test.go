package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/emulator"
	"tablesweep/internal/host"
	"tablesweep/internal/proof"
	"tablesweep/internal/storage"
)

// attackedApp is an app that holds something to destroy, with the address of its one handler.
type attackedApp struct {
	*host.Host
	inner string
	mu    sync.Mutex // guards log
	log   bytes.Buffer
}

// Write implements [io.Writer], for the host's log.
func (a *attackedApp) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.log.Write(p)
}

func startAttacked(t *testing.T) *attackedApp {
	t.Helper()
	_, _, connection := serveEmulator(t, emulator.Options{})
	program, err := exec.LookPath("tablesweep")
	if err == nil {
		program, err = filepath.Abs(program)
	}
	proof.Must(t, err)
	a := &attackedApp{}
	a.Host, err = host.Start(t.Context(), host.Options{
		Root: "..", Executable: program, Addr: "127.0.0.1:0", Key: "KEY", Log: zerolog.New(a),
		Settings: map[string]string{
			storage.HostConnection: connection, "TABLE_CATALOG_NAME": "People", "TABLE_CATALOG_INDEX_KEYS": "ssn,npi", "TABLE_CATALOG_ROW_KEY": "name",
			"TABLESWEEP_LOG_LEVEL": "trace", "AZURE_FUNCTIONS_ENVIRONMENT": "Development",
		},
	})
	proof.Must(t, err)
	t.Cleanup(a.Close)
	a.mu.Lock()
	defer a.mu.Unlock()
	found := regexp.MustCompile(`"url":"http://([^"]*)"`).FindSubmatch(a.log.Bytes())
	if found == nil {
		t.Fatalf("the log does not say where the handler listens: %s", &a.log)
	}
	a.inner = string(found[1])
	return a
}

// send sends a request as it is written here, and returns the answer. INNER is the handler's address, OUTER the host's.
func (a *attackedApp) send(t *testing.T, to, text string) (status int, body string) {
	t.Helper()
	outer := strings.TrimPrefix(a.URL(), "http://")
	if to == "OUTER" {
		to = outer
	} else {
		to = a.inner
	}
	head, content, _ := strings.Cut(text, "\n\n")
	text = strings.NewReplacer("\n", "\r\n", "INNER", a.inner, "OUTER", outer).Replace(head) + "\r\n\r\n" + content
	conn, err := net.Dial("tcp", to)
	proof.Must(t, err)
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	proof.Must(t, err)
	return resp.StatusCode, string(b)
}

// attackHandler sends its requests past the host: as a web page that rebinds its name, or a program of this machine.
func (a *attackedApp) attackHandler(t *testing.T) {
	t.Helper()
	for _, target := range []string{
		"GET /api/scans", "GET /api/log?stream=tr", "GET /api/catalog/records", "DELETE /api/log/tr", "DELETE /api/catalog/records?npi=1",
		"POST /Maintain", "POST /CopyRows", "GET /", "GET /api/console/", "OPTIONS /api/scans", "OPTIONS *", "GET http://INNER/api/scans",
	} {
		for _, headers := range []string{
			"Host: INNER", "Host: evil.example:7071", "Host: localhost", "Host: INNER\nX-Azure-Functions-InvocationId: 69d26e0c-3c8c-4c2c-9e53-30a9e8d4c5a1",
			"Host: INNER\nX-Forwarded-Host: localhost\nX-Forwarded-For: 127.0.0.1\nX-Forwarded-Proto: http\nx-ms-invocation-id: 1",
			"Host: INNER\nOrigin: http://evil.example\nSec-Fetch-Site: same-origin\nX-Azure-Functions-InvocationId: 1",
			"Host: INNER\nUser-Agent: Azure-Functions-Host/4.0.0.0\nX-Azure-Functions-HostVersion: 4.0.0.0\nContent-Type: application/json; charset=utf-8",
			"Host: INNER\nX-Tablesweep-Host-Secret: ", "Host: INNER\nX-Tablesweep-Host-Secret: x", "Host: INNER\nx_tablesweep_host_secret: x",
			"Host: INNER\nx-functions-key: KEY", "Host: INNER\nx-functions-key: KEY\nConnection: X-Tablesweep-Host-Secret",
		} {
			request := fmt.Sprintf("%s HTTP/1.1\n%s\nContent-Length: 37\n\n%s", target, headers, `{"Data":{"timer":"{}"},"Metadata":{}}`)
			if status, body := a.send(t, "INNER", request); status != http.StatusNotFound {
				t.Errorf("%s: status %d %s", request, status, body)
			}
		}
	}
}

// attackCalls calls queue and timer functions by the host, with a key of one function.
func (a *attackedApp) attackCalls(t *testing.T) {
	t.Helper()
	for _, path := range []string{`/api/log/..%5C..%5C`, `/api/log/x%5C..%5C..%5C..%5C`, "/api/log/%252e%252e/%252e%252e/", "/api/../", `/api/log/..%2F..%2F`, "/api/log/..%5C..%5C/"} {
		for _, function := range []string{"CopyRows", "Maintain", "ScanPrefix?code=KEY", "Maintain%3F", "Maintain%23"} {
			for _, headers := range []string{"x-functions-key: KEY", "X-FUNCTIONS-KEY: KEY\nx-functions-key: KEY", "x-functions-key: KEY\nX-Azure-Functions-InvocationId: 1"} {
				for _, name := range []string{"INNER", "OUTER"} {
					request := fmt.Sprintf("POST %s%s HTTP/1.1\nHost: %s\n%s\nContent-Length: 37\n\n%s", path, function, name, headers, `{"Data":{"timer":"{}"},"Metadata":{}}`)
					if status, body := a.send(t, "OUTER", request); status != 404 && status != 400 && status != 401 {
						t.Errorf("%s: status %d %s", request, status, body)
					}
				}
			}
		}
	}
}

// TestAttacks sends a running app what web pages, other programs and callers with a key can send, by the host and past it.
// Nothing is read, destroyed or invoked that the sender must not reach.
func TestAttacks(t *testing.T) {
	t.Parallel()
	a := startAttacked(t)
	const record = `{"name":"A","npi":"1","ssn":"12,34"}`
	sent := func(method, target, body string, want int) string {
		t.Helper()
		status, answer := a.send(t, "OUTER", fmt.Sprintf("%s %s HTTP/1.1\nHost: OUTER\nx-functions-key: KEY\nContent-Length: %d\n\n%s", method, target, len(body), body))
		if status != want {
			t.Errorf("%s %s: status %d %s, want %d", method, target, status, answer, want)
		}
		return answer
	}
	for _, stream := range []string{"tr", "prec"} {
		sent("POST", "/api/log?stream="+stream, `{"n":1}`, 201)
	}
	sent("POST", "/api/catalog/records", record, 201)

	a.attackHandler(t)
	a.attackCalls(t)
	// By the host, with a key: another stream or record than the one that is named.
	for _, name := range []string{"prec%23old", "prec%3Fold", "tr%3Fold", "tr%20", "tr%09", "x%5C..%5Ctr", "x/..%5Ctr", "prec%23", "x%2F..%2Ftr", "x%255C..%255Ctr", "t%2572"} {
		for _, method := range []string{"POST", "DELETE"} {
			a.send(t, "OUTER", fmt.Sprintf("%s /api/log/%s HTTP/1.1\nHost: OUTER\nx-functions-key: KEY\nContent-Length: 7\n\n%s", method, name, `{"n":2}`))
		}
	}
	for _, target := range []string{"?ssn=12&ssn=34", "?ssn=12&SSN=34"} {
		sent("DELETE", "/api/catalog/records"+target, "", 400) // several values are for GET alone
		sent("PATCH", "/api/catalog/records"+target, `{"name":"B"}`, 400)
	}
	sent("POST", "/api/log?stream=a&stream=b", `{"n":2}`, 400)
	sent("GET", "/api/catalog/records?npi=1&npi=2", "", 200)
	if got := sent("GET", "/api/catalog/records?ssn=12,34", "", 200); !strings.Contains(got, record) {
		t.Errorf("the record with a comma: %s", got)
	}

	for _, stream := range []string{"tr", "prec"} {
		if got := sent("GET", "/api/log?stream="+stream, "", 200); strings.Count(got, `"event"`) != 1 {
			t.Errorf("stream %s has %s, want its one event", stream, got)
		}
	}
	if got := sent("GET", "/api/catalog/records", "", 200); !strings.Contains(got, `"records":[`+record+`]`) {
		t.Errorf("the catalog has %s", got)
	}
	if got := sent("GET", "/api/log", "", 200); strings.Contains(got, "a,b") {
		t.Errorf("the streams are %s", got)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	secret := innerSecret(t, a.PIDs()[0])
	if secret == "" || bytes.Contains(a.log.Bytes(), []byte(secret)) || bytes.Contains(a.log.Bytes(), []byte(`"level":"error"`)) {
		t.Errorf("the log has the secret %q, or an error:\n%s", secret, &a.log)
	}
}

// innerSecret reads a handler's secret as its own user can.
func innerSecret(t *testing.T, pid int) string {
	t.Helper()
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	proof.Must(t, err)
	_, rest, _ := strings.Cut(string(environ), "TABLESWEEP_HOST_SECRET=")
	secret, _, _ := strings.Cut(rest, "\x00")
	return secret
}
