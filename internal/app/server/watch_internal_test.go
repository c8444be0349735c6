package server

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/rs/zerolog"

	"tablesweep/internal/app/function"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/storage"
)

// unreachable is a transport that refuses connections until a given time.
type unreachable struct {
	policy.Transporter
	until time.Time
}

func (c unreachable) Do(r *http.Request) (*http.Response, error) {
	if time.Now().Before(c.until) {
		return nil, syscall.ECONNREFUSED
	}
	return c.Transporter.Do(r)
}

// TestOutageIsLogged counts the lines of the log about an unavailable account, while ten concurrent requests query it.
func TestOutageIsLogged(t *testing.T) {
	for _, tt := range []struct {
		outage          time.Duration
		warnings, backs int
	}{
		{20 * time.Second, 0, 0},
		{time.Minute, 1, 1},
		{3 * time.Minute, 3, 1},
		{time.Hour, 60, 1},
	} {
		t.Run(tt.outage.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				em := emulatortest.New(t, emulator.Options{})
				c, err := storage.ParseConnection(em.ConnectionString())
				proof.Must(t, err)
				began := time.Now()
				a, err := storage.Open(c, storage.Options{Name: "DATA", Transport: unreachable{em.Transport(), began.Add(tt.outage)}})
				proof.Must(t, err)
				var out, errs bytes.Buffer
				ctx, stop := context.WithCancel(newLog(&out, &errs, zerolog.InfoLevel).WithContext(t.Context()))
				var all sync.WaitGroup
				all.Go(func() { watch(ctx, []*storage.Account{a}) })
				for range 10 {
					all.Go(func() {
						for time.Since(began) < tt.outage+time.Minute {
							step, done := context.WithTimeout(ctx, 8*time.Minute)
							_, _ = a.Table("Rows").Query(step, storage.Query{})
							done()
							time.Sleep(10 * time.Second) // until the message is delivered again
						}
					})
				}
				time.Sleep(tt.outage + time.Minute)
				stop()
				all.Wait()
				warnings, backs := strings.Count(errs.String(), "\n"), strings.Count(out.String(), "\n")
				if warnings != tt.warnings || backs != tt.backs {
					t.Errorf("got %d warnings and %d lines after the outage, want %d and %d:\n%s%s", warnings, backs, tt.warnings, tt.backs, errs.String(), out.String())
				}
				if tt.warnings > 0 && (!strings.Contains(errs.String(), `"connection":"DATA","cause":"connection refused"`) || !strings.Contains(out.String(), "answers again")) {
					t.Errorf("the lines lack the connection, the cause or the end of the outage:\n%s%s", errs.String(), out.String())
				}
			})
		})
	}
}

// TestOrphanEndsInTime: a handler whose host has ended also ends within a minute, even if one of its steps never ends.
func TestOrphanEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := make(pipes)
		hung := make(chan struct{})
		server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hung })}
		go func() { _ = server.Serve(l) }()
		ours, theirs := net.Pipe()
		l <- theirs
		fmt.Fprint(ours, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		synctest.Wait()
		began := time.Now()
		err := end(t.Context(), server, function.Catalogs{}, orphanTime)
		if took := time.Since(began) + time.Second; err == nil || took > time.Minute {
			t.Errorf("got error %v after %v; want an error because of the current request, within a minute", err, took)
		}
		close(hung)
		ours.Close()
	})
}

// pipes is a listener whose connections are in memory.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }
