package host_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"tablesweep/internal/function"
	"tablesweep/internal/host"
)

// conformance is what the real host (4.1037) did with requests that come out changed, or don't arrive: the status of its own empty answer, or
// what the handler got. TestSlowBodies has the body that stands still.
var conformance = []struct {
	name, line string // METHOD TARGET
	headers    string // a line each
	want       string
}{
	{name: "empty parts of a repeated parameter", line: "GET /api/log?npi=&npi=1", want: "GET /api/log?npi=&npi=1"},
	{name: "an empty parameter", line: "GET /api/log?npi=", want: "GET /api/log?npi="},
	{name: "several values", line: "GET /api/log?npi=1&npi=2", want: "GET /api/log?npi=1&npi=2"},
	{name: "a comma", line: "GET /api/log?npi=1,2", want: "GET /api/log?npi=1,2"},
	{name: "an escaped comma", line: "GET /api/log?npi=1%2C2", want: "GET /api/log?npi=1%2C2"},
	{name: "several spellings", line: "GET /api/log?npi=1&a=3&NPI=2", want: "GET /api/log?npi=1&a=3&NPI=2"},
	{name: "a byte that is no UTF-8 in a query", line: "GET /api/log?a=%FF", want: "GET /api/log?a=%FF"},
	{name: "no escape in a path", line: "GET /api/log/%zz", want: "GET /api/log/%25zz"},
	{name: "a lone % in a path", line: "GET /api/log/50%", want: "GET /api/log/50%25"},
	{name: "what follows # or ?", line: "GET /api/log/a%23b", want: "GET /api/log/a%23b"},
	{name: "blanks at the end", line: "GET /api/log/a%20%09", want: "GET /api/log/a%20%09"},
	{name: "an empty segment", line: "GET /api//log", want: "404"},
	{name: "an empty segment at the end", line: "GET /api/log//", want: "404"},
	{name: "a slash at the end", line: "GET /api/log/", want: "GET /api/log/"},
	{name: "an absolute target", line: "GET http://localhost/api/log?a=1", want: "GET /api/log?a=1"},
	{name: "an absolute target of another host", line: "GET http://example.com/api/log", want: "400"},
	{name: "a request line of 8 KiB", line: "GET /api/log?a=" + strings.Repeat("x", 8<<10-len("GET /api/log?a= HTTP/1.1\r\n")), want: "GET /api/log?a="},
	{name: "a longer request line", line: "GET /api/log?a=" + strings.Repeat("x", 8<<10), want: "414"},
	{name: "100 headers", line: "GET /api/log", headers: strings.Repeat("X-Mine: 1\n", 99), want: "GET /api/log"},
	{name: "101 headers", line: "GET /api/log", headers: strings.Repeat("X-Mine: 1\n", 100), want: "431"},
	{name: "headers over 32 KiB", line: "GET /api/log", headers: "X-Mine: " + strings.Repeat("x", 32<<10), want: "431"},
	{name: "no Host", line: "GET /api/log HTTP/1.0", want: "500"},
	{name: "a Host of HTTP/1.0", line: "GET /api/log HTTP/1.0", headers: "Host: localhost", want: "GET /api/log"},
	{name: "a Host that is no punycode", line: "GET /api/log", headers: "Host: xn--a", want: "500"},
	{name: "a Host with an empty label", line: "GET /api/log", headers: "Host: a..b", want: "500"},
	{name: "a Host with a port that is none", line: "GET /api/log", headers: "Host: 127.0.0.1:99999", want: "500"},
	{name: "a Host with an escape", line: "GET /api/log", headers: "Host: ev%69l", want: "400"},
	{name: "the server's options", line: "OPTIONS *", want: "404"},
	{name: "a tunnel", line: "CONNECT localhost:80", want: "404"},
	{name: "a method in small letters", line: "get /api/records", want: "GET /api/records"},
	{name: "a method that the function lacks", line: "PROPFIND /api/records", want: "404"},
	{name: "a letter that folds to another", line: "GET /api/console/a%C5%BF.js", want: "404"},
	{name: "a header beyond ASCII", line: "GET /api/log", headers: "X-Mine: é", want: "500"},
	{name: "a bad Content-Type", line: "POST /api/log", headers: "Content-Type: foo bar", want: "POST /api/log"},
	{name: "a body in chunks", line: "POST /api/log", headers: "Transfer-Encoding: chunked", want: "POST /api/log"},
	{name: "no content", line: "GET /api/log/204", want: "GET /api/log/204"},
	{name: "not modified", line: "GET /api/log/304", want: "GET /api/log/304"},
}

// TestLikeTheRealHost compares this host with the real one.
func TestLikeTheRealHost(t *testing.T) {
	t.Parallel()
	functions := []function.Function{
		{Name: "Log", Trigger: function.HTTP, Route: "log/{*stream}", Anonymous: true},
		{Name: "Records", Trigger: function.HTTP, Route: "records", Methods: []string{"GET", "POST"}, Anonymous: true},
		{Name: "Console", Trigger: function.HTTP, Route: "console/{file:regex(^[a-z]+[.]js$)?}", Anonymous: true},
	}
	o := newOrders(t, func(_ int, c call) order {
		switch c.URI {
		case "/api/log/204":
			return order{Status: 204}
		case "/api/log/304":
			return order{Status: 304}
		}
		return order{}
	})
	r := startRig(t, o, "", host.Options{Functions: functions})
	for _, tt := range conformance {
		before := len(o.all())
		status, body := sendRaw(t, r.URL(), tt.line, tt.headers)
		calls := o.all()[before:]
		got := status
		if len(calls) > 0 {
			uri, _, _ := strings.Cut(calls[0].URI, "xxx")
			got = calls[0].Method + " " + uri
		}
		if got != tt.want || len(calls) > 1 || len(calls) == 0 && body != "" {
			t.Errorf("%s: %s with the body %q after %d calls, want %s", tt.name, got, body, len(calls), tt.want)
		}
	}
	if failed := r.log.lines(`"error"`); len(failed) > 0 {
		t.Errorf("logged as errors: %s", failed)
	}
}

// sendRaw sends a request line and headers as they are, and returns the answer's status and body.
func sendRaw(t *testing.T, url, line, headers string) (status, body string) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	text := line
	if !strings.Contains(line, " HTTP/") {
		text += " HTTP/1.1"
		if !strings.Contains(headers, "Host:") {
			headers = "Host: localhost\n" + headers
		}
	}
	text += "\r\n"
	for header := range strings.Lines(headers) {
		text += strings.TrimSpace(header) + "\r\n"
	}
	text += "\r\n"
	if strings.Contains(headers, "chunked") {
		text += "0\r\n\r\n"
	}
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Status[:3], string(b)
}
