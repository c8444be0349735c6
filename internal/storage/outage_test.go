package storage_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/proof"
	"tablesweep/internal/storage"
)

// service gives good answers. During an outage, its function away answers instead.
type service struct {
	begin        time.Time
	from, to     time.Duration
	away         func(*http.Request) (*http.Response, error)
	mu           sync.Mutex
	tries, awake int
}

func (s *service) Do(r *http.Request) (*http.Response, error) {
	age := time.Since(s.begin)
	s.mu.Lock()
	s.tries++
	if age >= s.to {
		s.awake++
	}
	s.mu.Unlock()
	if age >= s.from && age < s.to {
		return s.away(r)
	}
	return answered(r, 200, http.Header{}, `{"value":[]}`), nil
}

func refuses(*http.Request) (*http.Response, error) { return nil, syscall.ECONNREFUSED }

func drops(*http.Request) (*http.Response, error) { return nil, io.EOF }

func hangs(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func isBusy(r *http.Request) (*http.Response, error) {
	return answered(r, 503, http.Header{"X-Ms-Error-Code": {"ServerBusy"}}, `{"odata.error":{"code":"ServerBusy","message":{"value":"The server is busy."}}}`), nil
}

// Requests wait for a host, with pauses of a few seconds, until the patience ends. If a connection may contain a typing
// error, requests wait only briefly for a host that has never answered.
func TestOutages(t *testing.T) {
	const never = time.Hour
	for _, tt := range []struct {
		name     string
		away     func(*http.Request) (*http.Response, error)
		from, to time.Duration // beginning and end of the outage
		fails    bool
		min, max time.Duration // duration of the request that begins at second 1
		cause    string        // reported during the request
	}{
		{"refused for half a second", refuses, time.Second, 1500 * time.Millisecond, false, 500 * time.Millisecond, 1500 * time.Millisecond, ""},
		{"refused for 40 s", refuses, time.Second, 41 * time.Second, false, 40 * time.Second, 46 * time.Second, "connection refused"},
		{"dropped for 40 s", drops, time.Second, 41 * time.Second, false, 40 * time.Second, 46 * time.Second, "connection broken"},
		{"silent for 8 s", hangs, time.Second, 9 * time.Second, false, 10 * time.Second, 12 * time.Second, ""},
		{"silent for 40 s", hangs, time.Second, 41 * time.Second, false, 40 * time.Second, 65 * time.Second, "no answer within 10s"},
		{"busy for 40 s", isBusy, time.Second, 41 * time.Second, false, 40 * time.Second, 46 * time.Second, "it answers 503 ServerBusy"},
		{"refused for a long time", refuses, time.Second, never, true, 3 * time.Minute, 3*time.Minute + 10*time.Second, "connection refused"},
		{"busy for a long time", isBusy, time.Second, never, true, 3 * time.Minute, 4 * time.Minute, "it answers 503 ServerBusy"},
		{"silent for a long time", hangs, time.Second, never, true, 3 * time.Minute, 4 * time.Minute, "no answer within 40s"},
		{"never connected", refuses, 0, never, true, 0, 0, ""},
		{"always dropped", drops, 0, never, true, 15 * time.Second, 16 * time.Second, "connection broken"},
		{"always silent", hangs, 0, never, true, 15 * time.Second, 16 * time.Second, "no answer within 10s"},
		{"always busy", isBusy, 0, never, true, 3 * time.Minute, 4 * time.Minute, "it answers 503 ServerBusy"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &service{begin: time.Now(), from: tt.from, to: tt.to, away: tt.away}
				a := open(t, signed, storage.Options{Transport: s, Patience: 3 * time.Minute, Unproven: true})
				if tt.from > 0 {
					if _, err := a.Table("Orders").Query(t.Context(), storage.Query{}); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Second)
				seen, first := map[string]bool{}, time.Time{}
				stop := make(chan struct{})
				go func() {
					for {
						select {
						case <-time.After(999 * time.Millisecond): // never at the end of the request
						case <-stop:
							return
						}
						for _, o := range a.Outages() {
							if o.Waiting == 0 {
								continue // the request has just ended
							}
							if first.IsZero() {
								first = time.Now()
							}
							seen[o.Cause] = o.Connection == "h" && o.Waiting > 0 && o.Since.Equal(s.begin.Add(time.Second))
						}
					}
				}()
				began := time.Now()
				_, err := a.Table("Orders").Query(t.Context(), storage.Query{})
				took := time.Since(began)
				close(stop)
				synctest.Wait()
				if (err != nil) != tt.fails || took < tt.min || took > tt.max {
					t.Errorf("after %v: error %v; want an error: %v, within %v to %v", took, err, tt.fails, tt.min, tt.max)
				}
				if tt.fails && !storage.Passing(err) {
					t.Errorf("the error %v does not show that a later retry may succeed", err)
				}
				if tt.cause != "" && !seen[tt.cause] || tt.cause == "" && len(seen) > 0 {
					t.Errorf("reported the outages %v, want %q", seen, tt.cause)
				}
				if wait := first.Sub(began); tt.cause != "" && wait > 12*time.Second {
					t.Errorf("the first report came after %v", wait)
				}
				if o := a.Outages(); tt.fails && tt.cause != "" && (len(o) != 1 || o[0].Waiting > 0) || !tt.fails && len(o) > 0 {
					t.Errorf("reported %v at the end; want an outage without waiting requests: %v", o, tt.fails)
				}
			})
		})
	}
}

// The cause of an outage is the newest cause, with its age if a newer one was to be expected. The end of a request's
// patience is not a cause.
func TestNewestCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{begin: time.Now(), to: time.Hour}
		s.away = func(r *http.Request) (*http.Response, error) {
			if age := time.Since(s.begin); age < 4*time.Second {
				return isBusy(r)
			}
			return hangs(r)
		}
		a := open(t, signed, storage.Options{Transport: s, Patience: time.Minute}) // its patience ends after the other account's
		failed := make(chan error, 1)
		go func() {
			_, err := a.Table("Orders").Query(t.Context(), storage.Query{})
			failed <- err
		}()
		time.Sleep(38700 * time.Millisecond)
		cause := a.Outages()[0].Cause
		if !regexp.MustCompile(`^no answer for 3[4-8]s; before: it answers 503 ServerBusy$`).MatchString(cause) {
			t.Errorf("got the cause %q", cause)
		}
		_, err := a.Table("Orders").Query(storage.WithPatience(t.Context(), time.Millisecond), storage.Query{})
		if err == nil || !strings.Contains(err.Error(), "ServerBusy") {
			t.Errorf("a request whose patience has ended: error %v", err)
		}
		if err := <-failed; err == nil || strings.Contains(err.Error(), "within 0s") {
			t.Error(err)
		}
	})
}

// Without a patience of its own, as in the app, a request waits until its deadline. Its error contains the connection's
// setting and the reason.
func TestWaitsUntilTheDeadline(t *testing.T) {
	for _, tt := range []struct {
		name  string
		away  func(*http.Request) (*http.Response, error)
		lasts time.Duration
		most  time.Duration
		error string
	}{
		{"refused for 20 s", refuses, 20 * time.Second, 25 * time.Second, ""},
		{"refused for 60 s", refuses, time.Minute, 65 * time.Second, ""},
		{"busy for 60 s", isBusy, time.Minute, 65 * time.Second, ""},
		{"refused forever", refuses, time.Hour, 8 * time.Minute, "no good answer for 8m0s: connection refused"},
		{"busy forever", isBusy, time.Hour, 8 * time.Minute, "no good answer for 8m0s: it answers 503 ServerBusy"},
		{"silent forever", hangs, time.Hour, 8 * time.Minute, "no good answer for 8m0s: no answer within 40s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &service{begin: time.Now(), to: tt.lasts, away: tt.away}
				a := open(t, signed, storage.Options{Name: "SRC", Transport: s})
				ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
				defer cancel()
				_, err := a.Table("Orders").Query(ctx, storage.Query{})
				took := time.Since(s.begin)
				switch {
				case tt.error == "" && err != nil, took < min(tt.lasts, tt.most), took > tt.most:
					t.Errorf("got error %v after %v, want it within %v", err, took, tt.most)
				case tt.error != "" && (err == nil || err.Error() != "query table Orders of SRC: "+tt.error || !storage.Passing(err)):
					t.Errorf("got error %v, want %s", err, tt.error)
				}
			})
		})
	}
}

// A sentence describes which connection has not answered, and for how long since the beginning of the outage, which may
// be before this request.
func TestOutageInOneSentence(t *testing.T) {
	for _, tt := range []struct {
		name, setting string
		away          func(*http.Request) (*http.Response, error)
		each          time.Duration // duration of each of two requests
		want          string
	}{
		{"silent", storage.HostConnection, hangs, 30 * time.Second, "the app's own storage (AzureWebJobsStorage) has not answered for 60 s"},
		{"silent, before a try has failed", "SRC", hangs, 5 * time.Second, "the storage of SRC has not answered for 5 s"},
		{"refused", "SRC", refuses, 30 * time.Second, "the storage of SRC has not answered for 60 s: connection refused"},
		{"busy", "SRC", isBusy, 30 * time.Second, "the storage of SRC has answered only 503 ServerBusy for 60 s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			a := open(t, signed, storage.Options{Name: tt.setting, Transport: &service{begin: time.Now(), to: time.Hour, away: tt.away}})
			var away *storage.AwayError
			for range 2 {
				ctx, cancel := context.WithTimeout(t.Context(), tt.each)
				_, err := a.Table("Orders").Query(ctx, storage.Query{})
				cancel()
				if !errors.As(err, &away) {
					t.Fatal(err)
				}
			}
			if got := away.Sentence(); got != tt.want {
				t.Errorf("%s: got sentence %s, want %s", tt.name, got, tt.want)
			}
		})
	}
}

// When a host answers again, all requests that wait for it continue immediately.
func TestAllRequestsContinueAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &service{begin: time.Now(), from: time.Second, to: time.Minute, away: refuses}
		a := open(t, signed, storage.Options{Transport: s, Patience: 10 * time.Minute})
		query := func() {
			if _, err := a.Table("Orders").Query(t.Context(), storage.Query{}); err != nil {
				t.Error(err)
			}
		}
		query()
		time.Sleep(time.Second)
		var first, last time.Duration
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				query()
				s.mu.Lock()
				last = time.Since(s.begin)
				s.mu.Unlock()
			})
		}
		for first == 0 {
			time.Sleep(time.Millisecond)
			s.mu.Lock()
			if s.awake > 0 {
				first = time.Since(s.begin)
			}
			s.mu.Unlock()
		}
		all.Wait()
		if last-first > 10*time.Millisecond || s.tries > 50*40 {
			t.Errorf("the first request continued after %v, the last after %v, with %d tries", first, last, s.tries)
		}
	})
}

// A request that fails while other requests succeed ends after the usual number of tries.
func TestOneRequestAlwaysFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := 0
		transport := roundTrip(func(r *http.Request) (*http.Response, error) {
			if strings.Contains(r.URL.Path, "Bad") {
				failed++
				return nil, io.EOF
			}
			return answered(r, 200, http.Header{}, `{"value":[]}`), nil
		})
		a := open(t, signed, storage.Options{Transport: &http.Client{Transport: transport}, Patience: 10 * time.Minute})
		ctx, cancel := context.WithCancel(t.Context())
		var others sync.WaitGroup
		others.Go(func() {
			for ctx.Err() == nil {
				_, _ = a.Table("Good").Query(ctx, storage.Query{})
				time.Sleep(time.Second)
			}
		})
		_, err := a.Table("Bad").Query(ctx, storage.Query{})
		cancel()
		others.Wait()
		if err == nil || failed < 40 || failed > 60 {
			t.Errorf("got error %v after %d tries", err, failed)
		}
	})
}

// The pause before a try ends if the caller no longer wants a try.
func TestStopRetries(t *testing.T) {
	for name, away := range map[string]func(*http.Request) (*http.Response, error){"refused": refuses, "busy": isBusy} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &service{begin: time.Now(), from: time.Second, to: time.Hour, away: away}
				a := open(t, signed, storage.Options{Transport: s, Patience: time.Hour})
				if _, err := a.Table("Orders").Query(t.Context(), storage.Query{}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				stop := make(chan struct{})
				time.AfterFunc(50*time.Second, func() { close(stop) })
				_, err := a.Table("Orders").With(storage.RequestOptions{Stop: stop}).Query(t.Context(), storage.Query{})
				if took := time.Since(s.begin); !errors.Is(err, context.Canceled) || took != 51*time.Second {
					t.Errorf("got error %v after %v", err, took)
				}
			})
		})
	}
}

// The counter counts tries that the service may have carried out without an answer.
func TestDoubts(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer func(*http.Request) (*http.Response, error)
		want   int64
	}{
		{"dropped", drops, 1},
		{"no answer", hangs, 1},
		{"out of time", func(r *http.Request) (*http.Response, error) { return answered(r, 500, http.Header{}, ""), nil }, 1},
		{"refused", refuses, 0},
		{"busy", isBusy, 0},
		{"bad", func(r *http.Request) (*http.Response, error) { return answered(r, 400, http.Header{}, "{}"), nil }, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var tried atomic.Bool // also used by the watch
				s := &stub{answer: func(r *http.Request) (*http.Response, error) {
					if tried.CompareAndSwap(false, true) {
						return tt.answer(r)
					}
					return answered(r, 201, http.Header{}, `<?xml version="1.0"?><QueueMessagesList></QueueMessagesList>`), nil
				}}
				q, err := open(t, signed, storage.Options{Transport: s}).Queue("work")
				proof.Must(t, err)
				var c storage.Counter
				_ = q.With(storage.RequestOptions{Counter: &c}).Put(t.Context(), "x")
				if c.Doubts() != tt.want {
					t.Errorf("counted %d doubtful requests, want %d", c.Doubts(), tt.want)
				}
			})
		})
	}
}
