package host

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/host/app"
	"tablesweep/internal/task"
)

func webFunction(t *testing.T) app.Function {
	t.Helper()
	route, err := app.ParseRoute("web")
	if err != nil {
		t.Fatal(err)
	}
	return app.Function{Name: "Web", Binding: "req", HTTP: &app.HTTPTrigger{Route: route, AuthLevel: app.Anonymous, Output: "res"}}
}

// TestResponseLimit: after 230 s the client is told to wait no longer, and the
// function goes on.
func TestResponseLimit(t *testing.T) {
	t.Parallel()
	for _, forward := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var finished atomic.Bool
			a := app.App{Handler: app.Handler{Forward: forward}, Functions: []app.Function{webFunction(t)}}
			h := newTestHost(a, 1, func(*http.Request) (string, error) {
				time.Sleep(5 * time.Minute)
				finished.Store(true)
				return "{}", nil
			})
			start, w := time.Now(), httptest.NewRecorder()
			h.front(t.Context())(w, httptest.NewRequest("GET", "http://localhost/web", nil))
			if took := time.Since(start); w.Code != http.StatusGatewayTimeout || took != 230*time.Second {
				t.Errorf("status %d after %v, want 504 after 230 s", w.Code, took)
			}
			time.Sleep(2 * time.Minute)
			if !finished.Load() {
				t.Error("the function did not go on")
			}
		})
	}
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

// TestClientLeaves: a proxied invocation ends when its client leaves, a forwarded one
// goes on.
func TestClientLeaves(t *testing.T) {
	t.Parallel()
	for _, proxy := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var took atomic.Int64
			a := app.App{Handler: app.Handler{Forward: true, Proxy: proxy}, Functions: []app.Function{webFunction(t)}}
			h := newTestHost(a, 1, func(r *http.Request) (string, error) {
				start := time.Now()
				task.Sleep(r.Context(), time.Minute)
				took.Store(int64(time.Since(start)))
				return "{}", r.Context().Err()
			})
			ctx, leave := context.WithTimeout(t.Context(), time.Second)
			defer leave()
			go h.front(t.Context())(httptest.NewRecorder(), httptest.NewRequest("POST", "http://localhost/web", nil).WithContext(ctx))
			time.Sleep(2 * time.Minute)
			if want := map[bool]time.Duration{true: time.Second, false: time.Minute}[proxy]; time.Duration(took.Load()) != want {
				t.Errorf("proxied %v: the handler's request ended after %v, want %v", proxy, time.Duration(took.Load()), want)
			}
		})
	}
}
