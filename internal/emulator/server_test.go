package emulator_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"tablesweep/internal/emulator"
)

// A page that leads its own name to this machine signs like anybody else.
func TestHosts(t *testing.T) {
	t.Parallel()
	a := newAccount(t, serve(t, newEmulator(t, emulator.Options{})))
	ask := func(host string, req *http.Request) answer {
		req.Host = host
		return a.send(t, req)
	}
	for _, c := range []struct {
		host string
		own  bool
	}{
		{"127.0.0.1", true}, {"127.0.0.1:1", true}, {"127.8.9.10", true}, {"[::1]:80", true}, {"localhost", true}, {"LocalHost:10002", true},
		{"evil.example", false}, {"localhost.evil.example", false}, {"127.0.0.1.evil.example:80", false}, {"192.0.2.7", false}, {"[2001:db8::1]", false}, {"0.0.0.0", false},
	} {
		status, code := 200, ""
		if !c.own {
			status, code = 403, "AuthorizationFailure"
		}
		check(t, c.host, ask(c.host, a.tableRequest(t, request{method: "GET", path: "/Tables"})), status, code)
		check(t, c.host, ask(c.host, a.queueRequest(t, request{method: "GET", path: "/", query: "comp=list"})), status, code)
		counts, err := http.NewRequestWithContext(t.Context(), "GET", a.tableURL+"/_emulator/counts", nil)
		if err != nil {
			t.Fatal(err)
		}
		same(t, c.host+": counts", ask(c.host, counts).status, status)
	}
}

// The address that Serve was given names it, too, and "0.0.0.0" stands for every address.
func TestGivenHost(t *testing.T) {
	t.Parallel()
	e := newEmulator(t, emulator.Options{})
	s, err := e.Serve(context.Background(), "0.0.0.0:0", "127.0.0.1:0", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	a := newAccount(t, s.ConnectionString())
	_, port, _ := strings.Cut(strings.TrimPrefix(a.tableURL, "http://["), "]:")
	tables := request{method: "GET", path: "/Tables"}
	for _, host := range append(ownAddresses(t), "0.0.0.0", "127.0.0.1") {
		a.tableURL = "http://" + net.JoinHostPort(host, port)
		check(t, host, a.table(t, tables), 200, "")
	}
	req := a.tableRequest(t, tables)
	req.Host = "evil.example"
	check(t, req.Host, a.send(t, req), 403, "AuthorizationFailure")
}

// ownAddresses returns the machine's IPv4 addresses.
func ownAddresses(t *testing.T) []string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	var own []string
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil {
			own = append(own, n.IP.String())
		}
	}
	return own
}

// net/http spells all names alike, so the bytes on the wire are looked at.
func TestMetadataSpelling(t *testing.T) {
	t.Parallel()
	a := newAccount(t, serve(t, newEmulator(t, emulator.Options{})))
	at, err := url.Parse(a.queueURL)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", at.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answers := bufio.NewReader(conn)
	send := func(method, path, query string, signed, sent map[string]string) string {
		req := a.queueRequest(t, request{method: method, path: path, query: query, header: signed})
		for name := range signed {
			delete(req.Header, name)
		}
		for name, value := range sent {
			req.Header[name] = []string{value}
		}
		if err := req.Write(conn); err != nil {
			t.Fatal(err)
		}
		var wire strings.Builder
		for {
			line, err := answers.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if line == "\r\n" {
				break
			}
			wire.WriteString(line)
		}
		return wire.String()
	}
	for i, name := range []string{"colorOfIt", "COLOR", "color"} { // one connection, one name after the other
		queue := fmt.Sprintf("/spelled%d", i)
		header := map[string]string{"x-ms-meta-" + name: "a: b", "x-ms-meta-Size": "9"}
		if got := send("PUT", queue, "", header, header); !strings.HasPrefix(got, "HTTP/1.1 201") {
			t.Fatal(got)
		}
		got := send("GET", queue, "comp=metadata", nil, nil)
		for _, want := range []string{"\r\nx-ms-meta-" + name + ": a: b\r\n", "\r\nx-ms-meta-Size: 9\r\n"} {
			if !strings.Contains(got, want) {
				t.Errorf("%s: the answer is\n%s\nwithout %q", name, got, want)
			}
		}
	}
	twice := map[string]string{"x-ms-meta-Color": "blue", "x-ms-meta-color": "red"}
	if got := send("PUT", "/spelled0", "comp=metadata", map[string]string{"x-ms-meta-color": "blue,red"}, twice); !strings.HasPrefix(got, "HTTP/1.1 400") || !strings.Contains(got, "InvalidMetadata") {
		t.Errorf("a name twice: %s", got)
	}
}

// A client may send requests before the answers to those before: net/http then reads the connection
// while a request is served.
func TestPipelinedMetadata(t *testing.T) {
	t.Parallel()
	a := newAccount(t, serve(t, newEmulator(t, emulator.Options{Latency: 20 * time.Millisecond})))
	conn, err := net.Dial("tcp", strings.TrimPrefix(a.queueURL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	put := func(path string) *http.Request {
		return a.queueRequest(t, request{method: "PUT", path: path, header: map[string]string{"x-ms-meta-Color": "red"}})
	}
	write := func(paths ...string) {
		var sent bytes.Buffer
		for _, path := range paths {
			if err := put(path).Write(&sent); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := conn.Write(sent.Bytes()); err != nil {
			t.Fatal(err)
		}
	}
	write("/first", "/second")
	answers := bufio.NewReader(conn)
	for _, path := range []string{"/first", "/second", "/third"} {
		got, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		same(t, path, got.StatusCode, 201)
		if path == "/first" {
			time.Sleep(5 * time.Millisecond) // until the second is served
			write("/third")
		}
	}
}

func TestLeftOut(t *testing.T) {
	t.Parallel()
	a := newAccount(t, serve(t, newEmulator(t, emulator.Options{})))
	for _, c := range []struct{ method, query, name string }{
		{"GET", "comp=acl", "access policy"}, {"PUT", "comp=acl", "access policy"}, {"GET", "restype=service&comp=properties", "service property"},
		{"GET", "restype=service&comp=stats", "statistic"}, {"GET", "sv=2019-02-02&sig=AAAA", "shared access signature"}, {"OPTIONS", "", "CORS"},
	} {
		for _, base := range []string{a.tableURL, a.queueURL} {
			for _, signed := range []bool{true, false} {
				req := a.build(t, base, request{method: c.method, path: "/abc", query: c.query}, nil)
				if signed {
					a.sign(req, "any text")
				}
				got := a.send(t, req)
				check(t, c.method+" "+c.query, got, 501, "NotImplemented")
				if body := string(got.body); !strings.Contains(body, c.name) || !strings.Contains(body, "Azurite") {
					t.Errorf("%s %s: %v", c.method, c.query, got)
				}
			}
		}
	}
	check(t, "create container", a.blob(t, request{method: "PUT", path: "/abc", query: aContainer}), 201, "")
	for _, c := range []struct{ request, header, value, name string }{
		{"PUT /abc/b?comp=block&blockid=AAAA", "", "", `PUT with comp="block" of a blob`}, {"GET /abc/b?comp=blocklist", "", "", "blocklist"},
		{"PUT /abc/b?comp=snapshot", "", "", "snapshot"}, {"GET /abc/b?snapshot=2026-01-01", "", "", "Get Blob and Get Blob Properties with snapshot"},
		{"PUT /abc/b?comp=tags", "", "", "tags"}, {"PUT /abc/b?comp=properties", "", "", "properties"}, {"GET /abc?restype=container&comp=acl", "", "", "access policy"},
		{"PUT /abc/b", "x-ms-copy-source", "http://a/b", "Put Blob with x-ms-copy-source"}, {"PUT /abc/b", "x-ms-blob-type", "PageBlob", "PageBlob"},
		{"PUT /abc/b", "x-ms-tags", "a=b", "x-ms-tags"}, {"DELETE /abc?restype=container", "If-Modified-Since", "Mon, 02 Jan 2006 15:04:05 GMT", "if-modified-since"},
		{"PUT /abc?restype=container&comp=lease", "x-ms-lease-action", "acquire", "lease"},
	} {
		method, path, _ := strings.Cut(c.request, " ")
		path, query, _ := strings.Cut(path, "?")
		r := request{method: method, path: path, query: query, header: map[string]string{}}
		if c.header != "" {
			r.header[c.header] = c.value
		}
		got := a.blob(t, r)
		check(t, c.request, got, 501, "NotImplemented")
		if body := string(got.body); !strings.Contains(body, c.name) || !strings.Contains(body, "Azurite") {
			t.Errorf("%s: %v", c.request, got)
		}
	}
	check(t, "a wrong signature", a.send(t, a.build(t, a.tableURL, request{method: "GET", path: "/Tables"}, nil)), 403, "AuthenticationFailed")
}
