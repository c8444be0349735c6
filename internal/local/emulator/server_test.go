package emulator_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"

	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
)

// A web page whose own name resolves to this machine can sign like any client, and is refused.
func TestForeignHostsAreRefused(t *testing.T) {
	t.Parallel()
	a := newAccount(t, serve(t, newEmulator(t, emulator.Options{})))
	send := func(host string, req *http.Request) answer {
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
		check(t, c.host, send(c.host, a.tableRequest(t, request{method: "GET", path: "/Tables"})), status, code)
		check(t, c.host, send(c.host, a.queueRequest(t, request{method: "GET", path: "/", query: "comp=list"})), status, code)
		counts, err := http.NewRequestWithContext(t.Context(), "GET", a.tableURL+"/_emulator/counts", nil)
		proof.Must(t, err)
		same(t, c.host+": counts", send(c.host, counts).status, status)
	}
}

// The address that was passed to Serve is accepted as the host. With "0.0.0.0", every address of the machine is accepted.
func TestServedAddressIsAccepted(t *testing.T) {
	t.Parallel()
	e := newEmulator(t, emulator.Options{})
	s, err := e.Serve(context.Background(), "0.0.0.0:0", "127.0.0.1:0", "127.0.0.1:0")
	proof.Must(t, err)
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
	proof.Must(t, err)
	var own []string
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil {
			own = append(own, n.IP.String())
		}
	}
	return own
}

// TestMetadataNames: names of metadata are returned in lower case, and a name that occurs twice is refused.
func TestMetadataNames(t *testing.T) {
	t.Parallel()
	a := newAccount(t, serve(t, newEmulator(t, emulator.Options{})))
	check(t, "create", a.queue(t, request{method: "PUT", path: "/named", header: map[string]string{"x-ms-meta-colorOfIt": "Red"}}), 201, "")
	listed := a.queue(t, request{method: "GET", path: "/", query: "comp=list&include=metadata"})
	if want := "<Metadata><colorofit>Red</colorofit></Metadata>"; !strings.Contains(string(listed.body), want) {
		t.Errorf("the list has no %s: %s", want, listed.body)
	}
	twice := a.queueRequest(t, request{method: "PUT", path: "/named", query: "comp=metadata", header: map[string]string{"x-ms-meta-color": "blue,red"}})
	delete(twice.Header, "x-ms-meta-color")
	twice.Header["X-Ms-Meta-Color"] = []string{"blue", "red"}
	check(t, "the same name twice", a.send(t, twice), 400, "InvalidMetadata")
}

func TestUnsupportedRequestsAreRefused(t *testing.T) {
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
					t.Errorf("%s %s: got %v, want a refusal", c.method, c.query, got)
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
			t.Errorf("%s: got %v, want a refusal with the name", c.request, got)
		}
	}
	check(t, "a wrong signature", a.send(t, a.build(t, a.tableURL, request{method: "GET", path: "/Tables"}, nil)), 403, "AuthenticationFailed")
}
