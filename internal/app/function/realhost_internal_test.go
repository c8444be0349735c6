package function

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"tablesweep/internal/proof"
)

// invocationHeaders contains the headers of the real host's calls of queue and timer functions.
const invocationHeaders = "Host: ADDRESS\nX-Azure-Functions-HostVersion: 4.1037.0.0\nX-Azure-Functions-InvocationId: 69d26e0c-3c8c-4c2c-9e53-30a9e8d4c5a1\n" +
	"User-Agent: Azure-Functions-Host/4.1037.0.0\nTransfer-Encoding: chunked\nContent-Type: application/json; charset=utf-8"

// proxiedHeaders contains the headers that the real host adds to the requests that it proxies. It replaces headers of the same names that callers send.
const proxiedHeaders = "Host: ADDRESS\nX-Forwarded-For: 7.7.7.7\nX-Forwarded-Host: app.example\nX-Forwarded-Proto: https\nX-Azure-Functions-HostVersion: 4.1037.0.0\n" +
	"X-Azure-Functions-InvocationId: 69d26e0c-3c8c-4c2c-9e53-30a9e8d4c5a1\nx-ms-invocation-id: 69d26e0c-3c8c-4c2c-9e53-30a9e8d4c5a1\nUser-Agent: curl/8\nAccept: */*"

// metadata is a queue message's metadata as the real host writes it: strings of .NET are encoded twice, numbers once.
const metadata = `"DequeueCount":"COUNT","ExpirationTime":"2026-01-09T03:04:05+00:00","Id":"\"800ae4b3-bdd2\"","InsertionTime":"2026-01-02T03:04:05+00:00",` +
	`"NextVisibleTime":"2026-01-02T03:14:05+00:00","PopReceipt":"\"AgAAAA==\"","sys":{"MethodName":"CopyRows","UtcNow":"2026-01-02T03:04:06.12345Z","RandGuid":"24ad4c06-24ad-4e5b-8294-3da9714877e9"}`

// forwardedHeaders contains the headers of a host that forwards requests. Host and User-Agent are the caller's.
var forwardedHeaders = strings.NewReplacer("Host: ADDRESS", "Host: app.example", "curl/8", "curl/8 Azure-Functions-Host/4.1037.0.0", "X-Forwarded-Host: app.example\n", "").Replace(proxiedHeaders)

const notProxied = "the Functions host changes requests before it passes them on: set customHandler.enableProxyingHttpRequest to true in host.json; if it is already true, update the host (Core Tools, or the image of a container)"

// recorded contains requests that the real host (4.1037, with the queue extension 4 and 5) has sent, and the answers that it understands: 200 with a
// JSON object for an invocation that is done. After an empty body or null it would wait forever. After any other status it delivers a message again.
var recorded = []struct {
	name, line, headers, body string
	status                    int
	kind, answer              string      // the Content-Type, and the beginning of the body
	invoked                   *Invocation // the function's argument
}{
	{name: "ready check", line: "GET /", headers: "Host: ADDRESS", status: 204},
	{
		name: "queue message: a string, encoded twice", line: "POST /CopyRows", headers: invocationHeaders,
		body:   `{"Data":{"item":"\"{\\\"v\\\":1,\\\"scan\\\":\\\"é\\\"}\""},"Metadata":{` + strings.Replace(metadata, "COUNT", "3", 1) + `}}`,
		status: 200, kind: "application/json", answer: `{"Outputs":{},"Logs":["done"],"ReturnValue":null}`,
		invoked: &Invocation{Body: []byte(`{"v":1,"scan":"é"}`), Delivery: 3},
	},
	{
		name: "queue message that is not JSON", line: "POST /CopyRows", headers: invocationHeaders,
		body:   `{"Data":{"item":"\"<a>&' \\u2028\\\\ \\\"hello\""},"Metadata":{` + strings.Replace(metadata, "COUNT", "1", 1) + `}}`,
		status: 200, kind: "application/json", answer: `{"Outputs":{},"Logs":["done"],`,
		invoked: &Invocation{Body: []byte("<a>&' \u2028\\ \"hello"), Delivery: 1},
	},
	{
		name: "queue message whose fields overwrite metadata", line: "POST /CopyRows", headers: invocationHeaders,
		body: `{"Data":{"item":"\"{\\\"id\\\":\\\"x\\\",\\\"dequeueCount\\\":\\\"many\\\",\\\"b\\\":true,\\\"o\\\":{\\\"k\\\":1},\\\"d\\\":\\\"2026-01-02T03:04:05Z\\\"}\""},"Metadata":{` +
			strings.NewReplacer(`"COUNT"`, `"\"many\""`, "800ae4b3-bdd2", "x").Replace(metadata) + `,"b":"\"True\"","o":{"k":1},"d":"\"01/02/2026 03:04:05\""}}`,
		status: 200, kind: "application/json", answer: `{"Outputs":{},"Logs":["done"],`,
		invoked: &Invocation{Body: []byte(`{"id":"x","dequeueCount":"many","b":true,"o":{"k":1},"d":"2026-01-02T03:04:05Z"}`), Delivery: 1},
	},
	{
		name: "queue message that has a number under that name", line: "POST /CopyRows", headers: invocationHeaders,
		body:   `{"Data":{"item":"\"{\\\"dequeueCount\\\":9}\""},"Metadata":{` + strings.Replace(metadata, `"COUNT"`, `"\"9\""`, 1) + `}}`,
		status: 200, kind: "application/json", answer: `{"Outputs":{},"Logs":["done"],`,
		invoked: &Invocation{Body: []byte(`{"dequeueCount":9}`), Delivery: 9},
	},
	{
		name: "timer", line: "POST /Maintain", headers: invocationHeaders,
		body: `{"Data":{"timer":{"Schedule":{"AdjustForDST":true},"ScheduleStatus":{"Last":"2026-01-02T03:03:00.0001+00:00","LastUpdated":"2026-01-02T03:03:00.0001+00:00",` +
			`"Next":"2026-01-02T03:04:00+00:00"},"IsPastDue":true}},"Metadata":{"sys":{"MethodName":"Maintain","UtcNow":"2026-01-02T03:04:06.12345Z","RandGuid":"24ad4c06-24ad-4e5b-8294-3da9714877e9"}}}`,
		status: 200, kind: "application/json", answer: `{"Outputs":{},"Logs":["done"],"ReturnValue":null}`,
		invoked: &Invocation{Delivery: 1, Body: []byte(`{"Schedule":{"AdjustForDST":true},"ScheduleStatus":{"Last":"2026-01-02T03:03:00.0001+00:00","LastUpdated":"2026-01-02T03:03:00.0001+00:00",` +
			`"Next":"2026-01-02T03:04:00+00:00"},"IsPastDue":true}`)},
	},
	{
		name: "timer without a schedule's state", line: "POST /Maintain", headers: invocationHeaders,
		body:   `{"Data":{"timer":{"Schedule":{"AdjustForDST":true},"ScheduleStatus":null,"IsPastDue":false}},"Metadata":{}}`,
		status: 200, kind: "application/json", answer: `{"Outputs":{},"Logs":["done"],`,
		invoked: &Invocation{Body: []byte(`{"Schedule":{"AdjustForDST":true},"ScheduleStatus":null,"IsPastDue":false}`), Delivery: 1},
	},

	{name: "the console, proxied", line: "GET /API/console/", headers: proxiedHeaders, status: 200, kind: "text/html; charset=utf-8", answer: "<!doctype html>"},
	{name: "the console without its slash", line: "GET /api/console", headers: proxiedHeaders, status: 302},
	{name: "a preflight", line: "OPTIONS /api/scans", headers: proxiedHeaders, status: 204},
	{name: "a method that no route has", line: "PROPFIND /api/log/a", headers: proxiedHeaders, status: 405, kind: "application/problem+json"},
	{name: "%2F in a path, which arrives escaped twice", line: "GET /api/log/a%252Fb", headers: proxiedHeaders, status: 400, kind: "application/problem+json", answer: `{"title":"Bad Request","status":400,"field":"stream","detail":"must not contain %, / or \\ if it is in the path`},
	{name: "bytes that are not UTF-8 in a path", line: "GET /api/log/%25E2%2582", headers: proxiedHeaders, status: 400, kind: "application/problem+json", answer: `{"title":"Bad Request","status":400,"field":"stream"`},
	{name: "a %zz in a query, escaped", line: "GET /api/log?stram=%25zz", headers: proxiedHeaders, status: 400, kind: "application/problem+json", answer: `{"title":"Bad Request","status":400,"field":"stram"`},
	{name: "several values", line: "GET /api/log?stream=a&stream=b", headers: proxiedHeaders, status: 400, kind: "application/problem+json", answer: `{"title":"Bad Request","status":400,"field":"stream"`},
	{name: "a body in chunks", line: "POST /api/schedules", headers: proxiedHeaders + "\nTransfer-Encoding: chunked", body: "{}", status: 405, kind: "application/problem+json"},
	{
		name: "another site's form, proxied", line: "POST /api/scans", body: "x=1", status: 403, kind: "application/problem+json",
		headers: proxiedHeaders + "\nOrigin: https://evil.example\nSec-Fetch-Site: cross-site\nContent-Type: application/x-www-form-urlencoded\nContent-Length: 3",
	},
	{name: "a caller who names a function, by a host that resolves ..%5C", line: "POST /CopyRows", headers: forwardedHeaders, status: 404, kind: "application/problem+json"},

	{name: "forwarded, in any case", line: "POST /API/Log/tr", headers: forwardedHeaders, status: 502, kind: "application/problem+json", answer: `{"title":"Bad Gateway","status":502,"detail":"`},
	{name: "forwarded", line: "GET /api/scans", headers: forwardedHeaders, status: 502, kind: "application/problem+json", answer: `{"title":"Bad Gateway","status":502,"detail":"`},
	{
		name: "neither proxied nor forwarded", line: "POST /Console", headers: invocationHeaders, status: 200, kind: "application/json",
		body: `{"Data":{"req":{"Url":"https://app.example/api/console/","Method":"GET","Query":"{}","Headers":{"Accept":["*/*"],"Host":["app.example"]},"Params":{},"Identities":"[]"}},` +
			`"Metadata":{"Query":{},"Headers":{"Accept":"*/*"},"sys":{"MethodName":"Console"}}}`,
		answer: `{"Outputs":{"res":{"statusCode":502,"body":"{\"title\":\"Bad Gateway\",\"status\":502,\"detail\":\"` + notProxied + `\"}\n","headers":{"Content-Type":"application/problem+json"}}},"Logs":["` + notProxied + `"],"ReturnValue":null}`,
	},
}

// TestRealHost sends the recorded requests of the real host to the handler.
func TestRealHost(t *testing.T) {
	invoked := make(chan Invocation, 1)
	functions := Functions(App{Console: true})
	for i := range functions {
		functions[i].gates = nil
		functions[i].invoke = func(_ context.Context, got Invocation) (string, error) {
			invoked <- got
			return "done", nil
		}
	}
	server := httptest.NewServer(Handler(functions, Host{}, zerolog.Nop()))
	defer server.Close()
	address := server.Listener.Addr().String()
	for _, tt := range recorded {
		text := tt.line + " HTTP/1.1\n" + tt.headers + "\n\n"
		chunked := strings.Contains(tt.headers, "chunked")
		if body := tt.body; chunked {
			for chunk := range slices.Chunk([]byte(body), 100) {
				text += fmt.Sprintf("%x\n%s\n", len(chunk), chunk)
			}
			text += "0\n\n"
		}
		text = strings.ReplaceAll(strings.ReplaceAll(text, "\n", "\r\n"), "ADDRESS", address)
		if !chunked {
			text += tt.body
		}
		status, kind, answer := exchange(t, address, text)
		if status != tt.status || kind != tt.kind || !strings.HasPrefix(answer, tt.answer) {
			t.Errorf("%s: got status %d, type %s, answer %.300s; want %d, %s, %s", tt.name, status, kind, answer, tt.status, tt.kind, tt.answer)
		}
		var got *Invocation
		select {
		case i := <-invoked:
			got = &i
		default:
		}
		if diff := cmp.Diff(tt.invoked, got); diff != "" {
			t.Errorf("%s: the function got (-want +got)\n%s", tt.name, diff)
		}
	}
}

// exchange sends a request unchanged, and reads the answer.
func exchange(t *testing.T, address, text string) (status int, kind, answer string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	proof.Must(t, err)
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("request %.200s: error %v", text, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	proof.Must(t, err)
	return resp.StatusCode, resp.Header.Get("Content-Type"), string(b)
}
