package host

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/app/function"
	"tablesweep/internal/app/hostjson"
	"tablesweep/internal/proof"
	"tablesweep/internal/task"
)

// webHost returns a host with the function Web, whose handler is f.
func webHost(f handlerFunc) *Host {
	h := newTestHost(hostjson.App{}, 1, f)
	h.functions = []hosted{{Function: function.Function{Name: "Web", Trigger: function.HTTP, Route: "web", Anonymous: true}}}
	return h
}

// localRequest returns a request from a program on this machine.
func localRequest(method string) *http.Request {
	r := httptest.NewRequest(method, "/api/web", nil)
	r.Host = "localhost"
	return r
}

// TestPick: the instances with a ready handler get requests in turn.
func TestPick(t *testing.T) {
	t.Parallel()
	h := newTestHost(hostjson.App{}, 3, nil)
	h.instances[1].publish(nil)
	counts := map[int]int{}
	for range 30 {
		counts[h.pick().id]++
	}
	if counts[1] != 0 || counts[0] < 10 || counts[2] < 10 {
		t.Errorf("requests per instance: %v; want none for instance 1, and equal numbers for the others", counts)
	}
	h.instances[0].publish(nil)
	h.instances[2].publish(nil)
	if h.pick() == nil {
		t.Error("without a ready instance, pick returned nil, want an instance")
	}
}

// TestClientDisconnects: an invocation ends when its client disconnects. This is not an error.
func TestClientDisconnects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var took atomic.Int64
		h := webHost(func(r *http.Request) (string, error) {
			start := time.Now()
			task.Sleep(r.Context(), time.Minute)
			took.Store(int64(time.Since(start)))
			return "{}", r.Context().Err()
		})
		var log bytes.Buffer
		h.instances[0].log = zerolog.New(&log).Level(zerolog.ErrorLevel)
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		go h.front(httptest.NewRecorder(), localRequest("POST").WithContext(ctx))
		time.Sleep(2 * time.Minute)
		if time.Duration(took.Load()) != time.Second {
			t.Errorf("the handler's request ended after %v, want 1 s", time.Duration(took.Load()))
		}
		if log.Len() > 0 {
			t.Errorf("logged %s", &log)
		}
	})
}

// streaming is a handler whose answer does not end.
type streaming struct{}

func (streaming) RoundTrip(r *http.Request) (*http.Response, error) {
	from, to := io.Pipe()
	context.AfterFunc(r.Context(), func() { to.CloseWithError(r.Context().Err()) })
	return &http.Response{StatusCode: http.StatusOK, Body: from, Request: r}, nil
}

// TestClientDisconnectsDuringAnswer: a client that disconnects during the answer is not an error either.
func TestClientDisconnectsDuringAnswer(t *testing.T) {
	t.Parallel()
	h := webHost(nil)
	h.client.Transport = streaming{}
	var log bytes.Buffer
	h.instances[0].log = zerolog.New(&log).Level(zerolog.ErrorLevel)
	served := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(served)
		h.front(w, r)
	}))
	defer server.Close()
	resp, err := server.Client().Get(server.URL + "/api/web")
	proof.Must(t, err)
	resp.Body.Close()
	<-served
	if log.Len() > 0 {
		t.Errorf("logged %s", &log)
	}
}
