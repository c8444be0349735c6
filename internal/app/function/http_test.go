package function_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/rs/zerolog"

	"tablesweep/internal/app/function"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
)

// TestMethods: every route answers an unsupported method with the list of its methods.
func TestMethods(t *testing.T) {
	a := newApp(t)
	for _, tt := range []struct{ path, lacks, allow string }{
		{"/api/scans", "DELETE", "GET, POST, HEAD, OPTIONS"},
		{"/api/scans/x", "POST", "GET, DELETE, HEAD, OPTIONS"},
		{"/api/scans/x/retry", "GET", "POST, OPTIONS"},
		{"/api/Scans/estimate/", "GET", "POST, OPTIONS"},
		{"/api/scans/estimate", "HEAD", "POST, OPTIONS"},
		{"/api/log", "PUT", "GET, POST, DELETE, HEAD, OPTIONS"},
		{"/api/log/s", "PROPFIND", "GET, POST, DELETE, HEAD, OPTIONS"},
		{"/api/catalog/records", "PROPFIND", "GET, POST, PUT, PATCH, DELETE, HEAD, OPTIONS"},
		{"/API/Catalog/visits/Changes/", "POST", "GET, HEAD, OPTIONS"},
	} {
		for method, want := range map[string]int{tt.lacks: http.StatusMethodNotAllowed, "OPTIONS": http.StatusNoContent} {
			w := a.send(method, tt.path, "")
			if got := w.Header().Get("Allow"); w.Code != want || got != tt.allow {
				t.Errorf("%s %s: status %d, Allow %q; want %d, %q", method, tt.path, w.Code, got, want, tt.allow)
			}
			if want == http.StatusNoContent && w.Body.Len() > 0 {
				t.Errorf("OPTIONS %s has a body", tt.path)
			}
		}
	}
	for path, want := range map[string]int{"/api/scans": 200, "/api/scans/none": 404, "/api/catalog/changes": 200, "/api/nothing": 404} {
		if w := a.send("HEAD", path, ""); w.Code != want {
			t.Errorf("HEAD %s: status %d, want the status of GET, %d", path, w.Code, want)
		}
	}
	for _, method := range []string{"OPTIONS", "GET", "PROPFIND"} {
		a.call(t, method, "/api/nothing", "", 404, `{"title":"Not Found"`)
	}
}

func gzipped(s string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, s)
	_ = w.Close()
	return b.String()
}

// TestCompressedBodies: a body may be compressed with gzip. Both forms are subject to the size limit.
func TestCompressedBodies(t *testing.T) {
	a := newApp(t)
	for _, tt := range []struct {
		name, path, encoding, body string
		status                     int
		want                       string
	}{
		{"gzip", people, "gzip", gzipped(faux), 201, faux},
		{"gzip as x-gzip", people, "X-Gzip", gzipped(faux), 200, faux},
		{"none", people, "identity", faux, 200, faux},
		{"a scan", "/api/scans", "gzip", gzipped(countBody), 202, `{"id":`},
		{"events", "/api/log/s", "gzip", gzipped(`[{"a":1},{"a":2}]`), 201, `{"events":[{"id":`},
		{"too large when unpacked", "/api/scans", "gzip", gzipped(strings.Repeat(" ", 64<<10) + countBody), 413, `{"title":"Request Entity Too Large","status":413,"detail":"the body is larger than 65536 bytes"`},
		{"a gigabyte", "/api/scans", "gzip", strings.Repeat(gzipped(strings.Repeat(" ", 1<<20)), 40), 413, `{"title":"Request Entity Too Large"`},
		{"too large when packed", "/api/scans", "gzip", strings.Repeat(gzipped(""), 4000), 413, `{"title":"Request Entity Too Large"`},
		{"not gzip", people, "gzip", faux, 400, `{"title":"Bad Request","status":400,"detail":"the body cannot be read: gzip`},
		{"cut off", people, "gzip", gzipped(faux)[:50], 400, `{"title":"Bad Request","status":400,"detail":"the body cannot be read: unexpected EOF"`},
		{"text after the compressed body", people, "gzip", gzipped(faux) + "more", 400, `{"title":"Bad Request"`},
		{"nothing", people, "gzip", "", 400, `{"title":"Bad Request"`},
		{"another encoding", people, "br", faux, 415, `{"title":"Unsupported Media Type","status":415,"field":"Content-Encoding"`},
		{"two encodings", people, "gzip, gzip", gzipped(gzipped(faux)), 415, `{"title":"Unsupported Media Type"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a.call(t, "POST", tt.path, tt.body, tt.status, tt.want, "Content-Encoding", tt.encoding)
		})
	}
}

// TestKeysAreNeverLogged: the host passes on the keys that callers send, and no log or answer contains them.
func TestKeysAreNeverLogged(t *testing.T) {
	const secret = "c2VjcmV0"
	var log bytes.Buffer
	whole := newApp(t)
	whole.Handler = function.Handler(function.Functions(whole.parts), function.Host{}, zerolog.New(&log).Level(zerolog.TraceLevel))
	broken := &app{Handler: function.Handler(function.Functions(function.App{}), function.Host{}, zerolog.New(&log))} // its calls panic
	for _, path := range []string{"/api/scans", "/api/scans/x", "/api/nothing", "/api/log/s", people, "/api/log?stream=a%2Fb", "/api/log/a%2Fb"} {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE", "OPTIONS", "PROPFIND"} {
			for _, query := range []string{"code=" + secret, "code=" + secret + "&code=" + secret, "code=" + secret + "%zz", "code=" + secret + "&top=0&eid=%"} {
				join := "?"
				if strings.Contains(path, "?") {
					join = "&"
				}
				for _, a := range []*app{whole, broken} {
					w := a.send(method, path+join+query, "{", "X-Functions-Key", secret, "Authorization", "Bearer "+secret)
					if strings.Contains(w.Body.String(), secret) {
						t.Errorf("%s %s: the answer contains the key: %s", method, path, w.Body)
					}
				}
			}
		}
	}
	if log.Len() == 0 || strings.Contains(log.String(), secret) {
		t.Errorf("got %d bytes of log, want some bytes without the key", log.Len())
	}
}

// leaving is a transport whose client disconnects at one of the requests.
type leaving struct {
	next  policy.Transporter
	left  atomic.Int64 // number of the request, counted from now; 0 for no request
	leave func()
}

func (l *leaving) Do(r *http.Request) (*http.Response, error) {
	if l.left.Load() > 0 && l.left.Add(-1) == 0 {
		l.leave()
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return l.next.Do(r)
}

// TestWritesContinueAfterDisconnection: a write continues if its client disconnects, at any of its requests to the
// storage.
func TestWritesContinueAfterDisconnection(t *testing.T) {
	const there, other, next = `{"eid":"1","lastname":"A","npi":7}`, `{"eid":"2","lastname":"B","npi":7}`, `{"eid":"1","lastname":"C","npi":7}`
	for _, tt := range []struct{ method, path, body, want string }{
		{"POST", people, other, there + "," + other},
		{"PUT", people + "?eid=1", next, next},
		{"PATCH", people + "?eid=1", `{"lastname":"C"}`, next},
		{"DELETE", people + "?eid=1", "", ""},
	} {
		t.Run(tt.method, func(t *testing.T) {
			t.Parallel()
			for n, left := int64(1), true; left; n++ {
				em := emulatortest.New(t, emulator.Options{})
				via := &leaving{next: em.Transport()}
				a := newAppVia(t, em, via)
				a.call(t, "POST", people, there, 201, there)
				left = leaveAt(t, a, via, n, tt.method, tt.path, tt.body)
				a.call(t, "GET", people+"?npi=7", "", 200, `{"records":[`+tt.want+`]`)
				if n == 1 && !left {
					t.Error("no request was made")
				}
			}
		})
	}
}

// leaveAt sends a request whose client disconnects at the n-th request to the storage. It reports whether there were n
// requests.
func leaveAt(t *testing.T, h http.Handler, via *leaving, n int64, method, path, body string) bool {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	via.leave = leave
	via.left.Store(n)
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body)))
	return via.left.Swap(0) <= 0
}

// pipes is a listener whose connections are in memory, so that the test controls time.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// TestSlowClients: a client that sends its body slowly, or does not read its answer, is disconnected before the host's
// time-out ends the process. A client that sends too much is answered after it has sent everything.
func TestSlowClients(t *testing.T) {
	const lastRead = 500 * time.Millisecond // time that the server waits before it closes a connection with unread data
	for _, tt := range []struct {
		name, sends string
		reads       bool
		ends        time.Duration
		want        string
	}{
		{"sends slowly", "POST /api/scans HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{", true, 150 * time.Second, "400 Bad Request"},
		{"sends slowly a body that no handler reads", "PUT /api/scans HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{", true, 10 * time.Second, "405 Method"},
		{"sends slowly a body of an unknown encoding", "POST /api/scans HTTP/1.1\r\nHost: x\r\nContent-Encoding: br\r\nContent-Length: 100\r\n\r\n{", true, 10 * time.Second, "415 Unsupported"},
		{"sends too much", "POST /api/scans HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 9000000\r\n\r\n" + strings.Repeat(" ", 9_000_000), true, 0, "HTTP/1.1 413 "},
		{"sends too much, slowly", "POST /api/scans HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000\r\n\r\n" + strings.Repeat(" ", 1_000_000), true, 10*time.Second + lastRead, "HTTP/1.1 413 "},
		{"sends more than the host passes on", "POST /api/scans HTTP/1.1\r\nHost: x\r\nContent-Length: 109000000\r\n\r\n" + strings.Repeat(" ", 65_537), true, lastRead, "HTTP/1.1 413 "},
		{"waits for 100 Continue", "PUT /api/scans HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 9000000\r\n\r\n", true, 0, "HTTP/1.1 405 "},
		{"does not read", "GET /api/scans/x HTTP/1.1\r\nHost: x\r\n\r\n", false, 220 * time.Second, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newApp(t)
				listener := make(pipes, 1)
				server := &http.Server{Handler: h}
				served := make(chan error, 1)
				go func() { served <- server.Serve(listener) }()
				client, conn := net.Pipe()
				listener <- conn
				start := time.Now()
				if _, err := io.WriteString(client, tt.sends); err != nil {
					t.Fatal(err)
				}
				if !tt.reads {
					time.Sleep(5 * time.Minute)
				}
				answer, _ := io.ReadAll(client) // until the connection ends
				if took := time.Since(start); tt.reads && took != tt.ends || !strings.Contains(string(answer), tt.want) || !tt.reads && len(answer) > 0 {
					t.Errorf("got answer %.200q after %v, want %q after %v", answer, took, tt.want, tt.ends)
				}
				_ = client.Close()
				close(listener)
				<-served
				_ = server.Close()
			})
		})
	}
}

// Each call refuses a path, a query and a body that is not valid UTF-8.
func TestInvalidUTF8IsRefused(t *testing.T) {
	testsize.WithoutRace(t)
	a := newApp(t)
	a.headers(t, "POST", people, `{"eid":"1","lastname":"A"}`, 201)
	hostile := []string{"%FF", "%E2%82", "%ED%A0%80", "x%C0%AF"} // a byte that UTF-8 never has, half a character, a surrogate, and a slash in too many bytes
	parameters := []string{"top", "cursor", "state", "action", "table", "name", "since", "after", "stream", "eid", "row_from", "row_to", "row_prefix", "select", "code", "%FF"}
	part := regexp.MustCompile(`\{\w+\}`)
	for path, methods := range readOpenAPI(t).paths {
		named := strings.NewReplacer("{name}", "visits", "{id}", strings.Repeat("0", 64)).Replace(path)
		for method := range methods {
			if method = strings.ToUpper(method); method == "PARAMETERS" {
				continue
			}
			for _, text := range hostile {
				if at := part.ReplaceAllString(path, text); at != path {
					a.call(t, method, at, "{}", 400, "{")
				}
				for _, name := range parameters {
					a.call(t, method, named+"?"+name+"="+text, "{}", 400, "{")
				}
				bad, _ := url.PathUnescape(text)
				for _, at := range []string{named, named + "?eid=1"} {
					if w := a.send(method, at, `{"eid":"1","lastname":"`+bad+`"}`, "Idempotency-Key", "k"); w.Code >= 500 {
						t.Errorf("%s %s with %q in its body: status %d, body %s", method, at, bad, w.Code, w.Body)
					}
				}
			}
		}
	}
	for _, at := range []string{people, "/api/log/orders"} {
		a.refuse(t, "POST", at, "[{\"eid\":\"2\",\"lastname\":\"A\"},\n{\"eid\":\"\xff\"}]", 400, "", "line 2 of the body is not valid UTF-8")
	}
	if strings.Contains(a.log.String(), "panic") {
		t.Error(a.log.String())
	}
}

// The text of an error that the program does not expect appears only in the log.
func TestUnexpectedErrorsAreHidden(t *testing.T) {
	em := emulatortest.New(t, emulator.Options{})
	refuse := false
	a := newAppVia(t, em, emulatortest.Via{Transporter: em.Transport(), Answer: func(r *http.Request, _ string) (*http.Response, error) {
		if refuse {
			return emulatortest.Refusal(r, http.StatusBadRequest, "InvalidInput"), nil
		}
		return nil, nil
	}})
	refuse = true
	a.call(t, "GET", "/api/scans", "", 500, `{"title":"Internal Server Error","status":500,"detail":"something went wrong; see the app's log"}`)
	if !strings.Contains(a.log.String(), "InvalidInput") {
		t.Errorf("the log lacks the error: %s", a.log.String())
	}
}

// If somebody deletes one of the app's own tables, each call that needs the table names it, and says how to get it again.
func TestDeletedTables(t *testing.T) {
	for table, path := range map[string]string{"tablesweep": "/api/scans", "log": "/api/log/s", "People": "/api/catalog/records?eid=1"} {
		a := newApp(t)
		proof.Must(t, a.account.Table(table).Delete(t.Context()))
		a.refuse(t, "GET", path, "", http.StatusServiceUnavailable, "", "table "+table+" of ")
		a.refuse(t, "GET", path, "", http.StatusServiceUnavailable, "", "restart the app to create an empty table")
	}
}
