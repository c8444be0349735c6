package storage_test

import (
	"cmp"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/key"
	"tablesweep/internal/proof"
	"tablesweep/internal/storage"
)

// stub answers requests with the result of its function, which may be an error.
type stub struct {
	answer func(*http.Request) (*http.Response, error)
	tries  atomic.Int64
}

func (s *stub) Do(r *http.Request) (*http.Response, error) {
	s.tries.Add(1)
	return s.answer(r)
}

// answered returns an answer with the headers of the service's answers.
func answered(r *http.Request, status int, header http.Header, body string) *http.Response {
	set := func(name, value string) { header.Set(name, cmp.Or(header.Get(name), value)) }
	set("X-Ms-Version", "2019-02-02")
	set("Content-Type", "application/json")
	if status >= 400 {
		set("X-Ms-Error-Code", "Stub")
	}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body)), Request: r}
}

const signed = "TableEndpoint=https://h/acct;QueueEndpoint=https://h/acct;AccountName=acct;SharedAccessSignature=sv=1&sig=TOPSECRET"

// A shared access signature is part of each request's URL, and must not be in errors.
func TestErrorsKeepSignaturesSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, cause := range []error{syscall.ECONNREFUSED, &net.DNSError{Err: "no such host", IsNotFound: true}} {
			transport := &http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) { return nil, cause })}
			a := open(t, signed, storage.Options{Transport: transport, Patience: time.Minute, Unproven: true})
			q, err := a.Queue("work")
			proof.Must(t, err)
			_, queryErr := a.Table("Orders").Query(t.Context(), storage.Query{})
			for _, err := range []error{queryErr, q.Put(t.Context(), "x"), a.Table("Orders").Write(t.Context(), storage.Op{Row: row("p", "r").Row()})} {
				if err == nil || strings.Contains(err.Error(), "TOPSECRET") || !strings.Contains(err.Error(), "no answer") {
					t.Errorf("got error %v, want an error without the signature", err)
				}
			}
		}
	})
}

// Messages of a service, or of a proxy, are stored with a scan and shown, so they must not contain secrets.
func TestServiceMessagesContainNoSecret(t *testing.T) {
	s := &stub{answer: func(r *http.Request) (*http.Response, error) {
		return answered(r, 400, http.Header{"X-Ms-Error-Code": {"InvalidInput"}}, `{"odata.error":{"code":"InvalidInput","message":{"value":"bad: https://h/acct/Orders?sv=1&sig=TOPSECRET&se=2"}}}`), nil
	}}
	_, err := open(t, signed, storage.Options{Transport: s}).Table("Orders").Query(t.Context(), storage.Query{})
	if err == nil || strings.Contains(err.Error(), "TOPSECRET") || !strings.Contains(err.Error(), "sig=…&se=2") {
		t.Errorf("got error %v, want the message without the signature", err)
	}
}

// Cosmos DB's answers to transactions have another form. Without this refusal, a copy would retry until its patience
// ends.
func TestCosmosIsNotWritten(t *testing.T) {
	s := &stub{answer: func(r *http.Request) (*http.Response, error) { return answered(r, 204, http.Header{}, ""), nil }}
	table := open(t, strings.Replace(signed, "https://h/acct", "https://orders.table.cosmos.azure.com", 1), storage.Options{Transport: s}).Table("Orders")
	_, mayWrite := table.MayWrite(t.Context())
	for _, err := range []error{table.Create(t.Context()), mayWrite, table.MayDelete(t.Context())} {
		if !storage.Permanent(err) || !strings.Contains(err.Error(), "Cosmos DB") || s.tries.Load() != 0 {
			t.Errorf("got error %v after %d requests, want an immediate error that names Cosmos DB", err, s.tries.Load())
		}
	}
}

// A value in a filter may be a hash, which looks like an account's key.
func TestFiltersMayContainHashes(t *testing.T) {
	if err := storage.CheckFilter("Hash eq 'n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg='"); err != nil {
		t.Error(err)
	}
	if err := storage.CheckFilter("Address eq 'https://h/acct?sv=1&sig=TOPSECRET'"); err == nil || strings.Contains(err.Error(), "TOPSECRET") {
		t.Errorf("got error %v, want a refusal without the signature", err)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A failure that may pass is retried, after the pause that the service asks for. An error in the connection is returned
// immediately.
func TestRetriedFailures(t *testing.T) {
	busy := func(retryAfter string) func(*http.Request) (*http.Response, error) {
		return func(r *http.Request) (*http.Response, error) {
			return answered(r, 503, http.Header{"Retry-After": {retryAfter}}, "{}"), nil
		}
	}
	fails := func(err error) func(*http.Request) (*http.Response, error) {
		return func(*http.Request) (*http.Response, error) { return nil, err }
	}
	for _, tt := range []struct {
		name     string
		answer   func(*http.Request) (*http.Response, error)
		unproven bool
		retried  bool
	}{
		{"busy", busy("1"), false, true},
		{"busy for a long time", busy("45"), false, true},
		{"name service does not answer", fails(&net.DNSError{IsTimeout: true}), false, true},
		{"no such host", fails(&net.DNSError{IsNotFound: true}), false, true},
		{"connection refused", fails(syscall.ECONNREFUSED), false, true},
		{"no such host, in a command", fails(&net.DNSError{IsNotFound: true}), true, false},
		{"connection refused, in a command", fails(syscall.ECONNREFUSED), true, false},
		{"bad request", func(r *http.Request) (*http.Response, error) { return answered(r, 400, http.Header{}, "{}"), nil }, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &stub{answer: tt.answer}
				a := open(t, signed, storage.Options{Transport: s, Unproven: tt.unproven})
				if _, err := a.Table("Orders").Query(t.Context(), storage.Query{}); err == nil {
					t.Error("no error")
				}
				if got := s.tries.Load() > 5; got != tt.retried {
					t.Errorf("got %d tries, want more; error %v", s.tries.Load(), tt.retried)
				}
			})
		})
	}
}

// The ETag protects the ledger's rows. If the answer has no ETag, it is made from the Timestamp, as the service does.
func TestETagWithoutMetadata(t *testing.T) {
	s := &stub{answer: func(r *http.Request) (*http.Response, error) {
		return answered(r, 200, http.Header{}, `{"value":[{"PartitionKey":"p","RowKey":"r","Timestamp":"2020-01-01T00:00:00.1234567Z"}]}`), nil
	}}
	e, _, err := open(t, signed, storage.Options{Transport: s}).Table("Orders").Get(t.Context(), key.Key{Partition: "p", Row: "r"})
	if want := `W/"datetime'2020-01-01T00%3A00%3A00.1234567Z'"`; err != nil || e.ETag != want {
		t.Errorf("got ETag %s, error %v; want %s", e.ETag, err, want)
	}
}

func TestSameAccountBySeveralNames(t *testing.T) {
	const endpoint = "AccountName=a;AccountKey=" + key64 + ";TableEndpoint="
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"https://h/acct", "http://h/acct", true},
		{"https://h:443/acct/", "https://H/acct", true},
		{"http://h:80", "http://h", true},
		{"http://h:1", "http://h:2", false},
		{"http://h/a", "http://h/b", false},
		{"http://localhost:1/a", "http://127.0.0.1:1/a", true},
		{"http://localhost:1/a", "http://127.0.0.1:2/a", false},
		{"https://h.:443", "https://h;BlobEndpoint=https://other", true},
		{"http://localhost.:1/a", "http://127.0.0.1:1/a", true},
		{"https://a.table.core.windows.net", "https://h;BlobEndpoint=https://a.blob.core.windows.net", true},
	} {
		a := open(t, endpoint+tt.a, storage.Options{}).Table("T")
		b := open(t, endpoint+tt.b, storage.Options{}).Table("t")
		if got := a.Same(b); got != tt.want {
			t.Errorf("%s and %s: got same %v, want %v", tt.a, tt.b, got, tt.want)
		}
	}
}
