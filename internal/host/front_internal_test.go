package host

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/function"
	"tablesweep/internal/function/app"
	"tablesweep/internal/task"
)

// webHost is a host with the function Web, for which f stands.
func webHost(t *testing.T, f handlerFunc) *Host {
	t.Helper()
	route, err := app.ParseRoute("web")
	if err != nil {
		t.Fatal(err)
	}
	h := newTestHost(app.App{}, 1, f)
	h.functions = []hosted{{Function: function.Function{Name: "Web", Trigger: function.HTTP, Anonymous: true}, route: route}}
	return h
}

// localRequest is a request of a program on this machine.
func localRequest(method string) *http.Request {
	r := httptest.NewRequest(method, "/web", nil)
	r.Host = "localhost"
	return r
}

// TestResponseLimit: after 230 s the client is told to wait no longer.
func TestResponseLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := webHost(t, func(r *http.Request) (string, error) {
			task.Sleep(r.Context(), 5*time.Minute)
			return "{}", r.Context().Err()
		})
		start, w := time.Now(), httptest.NewRecorder()
		h.front(t.Context())(w, localRequest("GET"))
		if took := time.Since(start); w.Code != http.StatusGatewayTimeout || took != 230*time.Second {
			t.Errorf("status %d after %v, want 504 after 230 s", w.Code, took)
		}
	})
}

// TestPick: requests take turns among the instances whose handler is ready.
func TestPick(t *testing.T) {
	t.Parallel()
	h := newTestHost(app.App{}, 3, nil)
	h.instances[1].publish(nil)
	counts := map[int]int{}
	for range 30 {
		counts[h.pick().id]++
	}
	if counts[1] != 0 || counts[0] < 10 || counts[2] < 10 {
		t.Errorf("picked %v, want none for 1 and the rest shared", counts)
	}
	h.instances[0].publish(nil)
	h.instances[2].publish(nil)
	if h.pick() == nil {
		t.Error("without a ready instance, none was picked")
	}
}

// TestClientLeaves: an invocation ends when its client leaves. That is no error.
func TestClientLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var took atomic.Int64
		h := webHost(t, func(r *http.Request) (string, error) {
			start := time.Now()
			task.Sleep(r.Context(), time.Minute)
			took.Store(int64(time.Since(start)))
			return "{}", r.Context().Err()
		})
		var log bytes.Buffer
		h.instances[0].log = zerolog.New(&log).Level(zerolog.ErrorLevel)
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		go h.front(t.Context())(httptest.NewRecorder(), localRequest("POST").WithContext(ctx))
		time.Sleep(2 * time.Minute)
		if time.Duration(took.Load()) != time.Second {
			t.Errorf("the handler's request ended after %v, want 1 s", time.Duration(took.Load()))
		}
		if log.Len() > 0 {
			t.Errorf("logged %s", &log)
		}
	})
}

// streaming is a handler whose answer has no end.
type streaming struct{}

func (streaming) RoundTrip(r *http.Request) (*http.Response, error) {
	from, to := io.Pipe()
	context.AfterFunc(r.Context(), func() { to.CloseWithError(r.Context().Err()) })
	return &http.Response{StatusCode: http.StatusOK, Body: from, Request: r}, nil
}

// TestClientLeavesWithinAnAnswer: that is no error either.
func TestClientLeavesWithinAnAnswer(t *testing.T) {
	t.Parallel()
	h := webHost(t, nil)
	h.client.Transport = streaming{}
	var log bytes.Buffer
	h.instances[0].log = zerolog.New(&log).Level(zerolog.ErrorLevel)
	served := make(chan struct{})
	front := h.front(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(served)
		front(w, r)
	}))
	defer server.Close()
	resp, err := server.Client().Get(server.URL + "/web")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	<-served
	if log.Len() > 0 {
		t.Errorf("logged %s", &log)
	}
}

// pipes is a listener whose connections are in memory, so that time is the test's own.
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

// TestSlowBodies: a body that stands still is an empty 500 after 6 s, one that
// comes at the least rate passes, and the connection is used again.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	const head = "POST /web HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
	for _, tt := range []struct {
		name   string
		sends  []string // one every 5 s
		status int
		took   time.Duration
	}{
		{"stands still", []string{head + "100\r\n\r\n{"}, 500, 6 * time.Second},
		{"stands still in chunks", []string{"POST /web HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"}, 500, 6 * time.Second},
		{"slowly", []string{head + "4000\r\n\r\n" + strings.Repeat("x", 1300), strings.Repeat("x", 1300), strings.Repeat("x", 1400)}, 200, 10 * time.Second},
		{"too slowly", []string{head + "4000\r\n\r\n" + strings.Repeat("x", 1300), strings.Repeat("x", 100)}, 500, 6833333333},
		{"at once, and its client waits", []string{head + "1\r\n\r\nx", "", ""}, 200, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := webHost(t, func(r *http.Request) (string, error) {
				if r.Body == nil {
					return "{}", nil
				}
				_, err := io.Copy(io.Discard, r.Body)
				return "{}", err
			})
			listener := make(pipes, 1)
			server := &http.Server{Handler: h.front(t.Context()), ConnState: between}
			served := make(chan error, 1)
			go func() { served <- server.Serve(kestrel{listener}) }()
			client, conn := net.Pipe()
			listener <- conn
			start := time.Now()
			answers := bufio.NewReader(client)
			go func() {
				for _, text := range tt.sends {
					_, _ = io.WriteString(client, text)
					time.Sleep(5 * time.Second)
				}
			}()
			resp, err := http.ReadResponse(answers, nil)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			if took := time.Since(start); resp.StatusCode != tt.status || took != tt.took || tt.status == 500 && len(body) > 0 {
				t.Errorf("%s: status %d %q after %v, want %d after %v", tt.name, resp.StatusCode, body, took, tt.status, tt.took)
			}
			time.Sleep(time.Minute)
			if tt.status == 200 {
				_, _ = io.WriteString(client, "GET /web?% HTTP/1.1\r\nHost: localhost\r\n\r\n")
				if resp, err := http.ReadResponse(answers, nil); err != nil || resp.StatusCode != 200 {
					t.Errorf("%s: the next request of the connection: %v", tt.name, err)
				}
			}
			_ = client.Close()
			close(listener)
			<-served
			_ = server.Close()
		})
	}
}
