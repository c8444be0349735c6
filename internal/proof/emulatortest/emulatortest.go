// Package emulatortest opens embedded storage in tests. It can also simulate a process that dies
// during a request.
package emulatortest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"tablesweep/internal/action"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/storage"
)

// NewAccount returns an emulator and its account, opened with the emulator's own transport.
func NewAccount(t testing.TB, o emulator.Options) (*emulator.Emulator, *storage.Account) {
	t.Helper()
	em := New(t, o)
	return em, Open(t, em, nil)
}

// New returns an emulator.
func New(t testing.TB, o emulator.Options) *emulator.Emulator {
	t.Helper()
	em, err := emulator.New(o)
	proof.Must(t, err)
	return em
}

// Serve serves an emulator over HTTP until the test ends, and returns the connection string. It does not use the test's context, because that ends
// before the test's cleanup stops other programs.
func Serve(t testing.TB, em *emulator.Emulator) string {
	t.Helper()
	server, err := em.Serve(context.Background(), "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0")
	proof.Must(t, err)
	t.Cleanup(func() { _ = server.Close() })
	return server.ConnectionString()
}

// Open opens the emulator's account with a transport, or with the emulator's own if `via` is nil.
func Open(t testing.TB, em *emulator.Emulator, via policy.Transporter) *storage.Account {
	t.Helper()
	if via == nil {
		via = em.Transport()
	}
	a, err := open(em, via)
	proof.Must(t, err)
	return a
}

// All reads all pages of a query. A page with more rows than the query's Top is an error.
func All(ctx context.Context, from storage.Source, q storage.Query) (rows []storage.Entity, err error) {
	for {
		p, _, err := from.Read(ctx, storage.RequestOptions{}, q)
		if err == nil && q.Top > 0 && len(p.Rows) > q.Top {
			err = fmt.Errorf("got a page of %d rows, want at most %d", len(p.Rows), q.Top)
		}
		if err != nil {
			return rows, err
		}
		rows = append(rows, p.Entities()...)
		if q.Token = p.Next; p.Next == nil {
			return rows, nil
		}
	}
}

// Rows returns all rows of a table.
func Rows(t testing.TB, table *storage.Table) []storage.Entity {
	t.Helper()
	rows, err := All(t.Context(), table, storage.Query{})
	proof.Must(t, err)
	return rows
}

// Table creates a table with the rows.
func Table(t testing.TB, a *storage.Account, name string, rows []storage.Entity) *storage.Table {
	t.Helper()
	table := a.Table(name)
	proof.Must(t, table.Create(t.Context()))
	_, err := (action.Copy{Destination: table}).Copy(t.Context(), storage.Rows(rows))
	proof.Must(t, err)
	return table
}

// Example returns an account of embedded storage for a runnable example, which has no
// [testing.TB]. Any error ends the process.
func Example() *storage.Account {
	em, err := emulator.New(emulator.Options{})
	if err != nil {
		log.Fatal(err)
	}
	a, err := open(em, em.Transport())
	if err != nil {
		log.Fatal(err)
	}
	return a
}

func open(em *emulator.Emulator, via policy.Transporter) (*storage.Account, error) {
	c, err := storage.ParseConnection(em.ConnectionString())
	if err != nil {
		return nil, err
	}
	return storage.Open(c, storage.Options{Transport: via})
}

// errDead is the error of a dead process's requests.
var errDead = errors.New("the process is dead")

// Process is the transport of a process that dies during one of its requests. Until DieWith or DieWhen is
// called, the process does not die.
type Process struct {
	Next    policy.Transporter
	applied atomic.Bool
	left    atomic.Int64 // the number of requests until the process dies, including the one during which it dies; 0 if it does not die
	dead    atomic.Bool
	when    atomic.Pointer[func(*http.Request) bool]
}

// DieWith lets the process die during its n-th request from now on. The next request has the number 1. If `applied` is true, the request is carried out. Its
// answer is lost in both cases.
func (p *Process) DieWith(n int, applied bool) {
	p.applied.Store(applied)
	p.left.Store(int64(n))
}

// DieWhen lets the process die before the first request for which `when` returns true.
func (p *Process) DieWhen(when func(*http.Request) bool) { p.when.Store(&when) }

// Dead reports whether the process is dead.
func (p *Process) Dead() bool { return p.dead.Load() }

// Do implements [policy.Transporter].
func (p *Process) Do(r *http.Request) (*http.Response, error) {
	if p.dead.Load() {
		return nil, errDead
	}
	if when := p.when.Load(); when != nil && (*when)(r) {
		p.dead.Store(true)
		return nil, errDead
	}
	if p.left.Load() > 0 && p.left.Add(-1) <= 0 {
		p.dead.Store(true)
		if p.applied.Load() {
			if resp, err := p.Next.Do(r); err == nil {
				resp.Body.Close()
			}
		}
		return nil, errDead
	}
	return p.Next.Do(r)
}

// Via is a transport with a function that gets each request and its body, and may answer it. If the function returns neither an answer nor an error, the
// embedded transport sends the request.
type Via struct {
	policy.Transporter
	Answer func(r *http.Request, body string) (*http.Response, error)
}

// Do implements [policy.Transporter].
func (v Via) Do(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	if answer, err := v.Answer(r, string(body)); answer != nil || err != nil {
		return answer, err
	}
	return v.Transporter.Do(r)
}

// Refusal returns the service's answer to a request that it refuses with an error code.
func Refusal(r *http.Request, status int, code string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"X-Ms-Error-Code": {code}}, Body: http.NoBody, Request: r}
}
