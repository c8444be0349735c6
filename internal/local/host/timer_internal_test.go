package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/google/go-cmp/cmp"

	"tablesweep/internal/app/function"
	"tablesweep/internal/app/hostjson"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/scans/calendar"
	"tablesweep/internal/storage"
)

// handlerFunc is a handler without a process. It answers the invocations of an instance in the test's virtual time.
type handlerFunc func(*http.Request) (body string, err error)

func (f handlerFunc) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := f(r)
	if err != nil {
		return nil, err
	}
	header := http.Header{"Content-Type": {"application/json"}}
	return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// newTestHost returns a host with n instances, whose handler is f.
func newTestHost(a hostjson.App, n int, f handlerFunc) *Host {
	h := &Host{app: a, client: &http.Client{Transport: f}, options: Options{Times: defaultTimes()}}
	for i := range n {
		in := newInstance(h, i)
		in.publish(&process{address: fmt.Sprintf("instance%d", i)})
		h.instances = append(h.instances, in)
	}
	return h
}

type tick struct {
	Second     float64
	Instance   string
	Last, Next float64 // in seconds; -1 for never
	PastDue    bool
}

// ticks runs a timer on two instances for the given time, and returns the function's inputs. The i-th run lasts as long as takes(i).
func ticks(t *testing.T, schedule string, during time.Duration, takes func(i int) time.Duration) (list []tick) {
	start := time.Now()
	seconds := func(s string) float64 {
		at, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			t.Errorf("bad time %q: %v", s, err)
		}
		if at.IsZero() {
			return -1
		}
		return at.Sub(start).Seconds()
	}
	h := newTestHost(hostjson.App{}, 2, func(r *http.Request) (string, error) {
		var doc struct {
			Data map[string]struct {
				ScheduleStatus *struct{ Last, Next string }
				IsPastDue      bool
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&doc); err != nil {
			t.Error(err)
		}
		d := doc.Data["timer"]
		k := tick{Second: time.Since(start).Seconds(), Instance: r.URL.Host, PastDue: d.IsPastDue}
		if s := d.ScheduleStatus; s != nil {
			k.Last, k.Next = seconds(s.Last), seconds(s.Next)
		}
		list = append(list, k)
		time.Sleep(takes(len(list) - 1))
		return "{}", nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), during)
	defer cancel()
	_, h.own = emulatortest.NewAccount(t, emulator.Options{})
	h.keepTimer(ctx, t.Context(), timerFunction(t, schedule))
	return list
}

// timerFunction returns the function Tick with a schedule.
func timerFunction(t *testing.T, s string) hosted {
	t.Helper()
	cron, err := calendar.ParseCron(s)
	proof.Must(t, err)
	return hosted{Function: function.Function{Name: "Tick", Trigger: function.Timer}, schedule: cron}
}

// TestTimer: a schedule fires once at each of its times, for any number of instances, and the instances run it in turn.
func TestTimer(t *testing.T) {
	t.Parallel()
	noTime := func(int) time.Duration { return 0 }
	tests := []struct {
		name     string
		schedule string
		during   time.Duration
		takes    func(int) time.Duration
		want     []tick
	}{
		// In a synctest bubble, time starts at midnight UTC.
		{"every minute", "0 * * * * *", 130 * time.Second, noTime, []tick{
			{60, "instance1", -1, 60, false},
			{120, "instance0", 60, 120, false},
		}},
		{
			"a run that takes longer than the schedule", "*/10 * * * * *", 39 * time.Second,
			func(i int) time.Duration { return []time.Duration{25 * time.Second, 0, 0}[i] }, []tick{
				{10, "instance1", -1, 10, false},
				{35, "instance0", 10, 20, false}, // one run for 20 and 30
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				if diff := cmp.Diff(test.want, ticks(t, test.schedule, test.during, test.takes)); diff != "" {
					t.Errorf("ticks (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestInvocationWaitsForRestart: an invocation waits for a process that is being restarted.
func TestInvocationWaitsForRestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newTestHost(hostjson.App{FunctionTimeout: time.Minute}, 1, func(*http.Request) (string, error) { return "{}", nil })
		in := h.instances[0]
		p := in.current()
		in.publish(nil)
		var wait sync.WaitGroup
		wait.Go(func() {
			time.Sleep(10 * time.Second)
			in.publish(p)
		})
		start := time.Now()
		_, err := in.newInvocation(hosted{Function: function.Function{Name: "Work"}}).invoke(t.Context(), nil)
		if took := time.Since(start); err != nil || took != 10*time.Second {
			t.Errorf("error %v after %v, want success after 10 s", err, took)
		}
		wait.Wait()
	})
}

// TestHangsWithoutAnswer: after an empty answer or null, the invocation hangs until functionTimeout.
func TestHangsWithoutAnswer(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "null"} {
		synctest.Test(t, func(t *testing.T) {
			h := newTestHost(hostjson.App{FunctionTimeout: time.Minute}, 1, func(*http.Request) (string, error) { return body, nil })
			h.instances[0].process.done = make(chan struct{})
			close(h.instances[0].process.done) // there is no process to kill
			start := time.Now()
			_, err := h.instances[0].newInvocation(hosted{Function: function.Function{Name: "Work"}}).invoke(t.Context(), nil)
			if took := time.Since(start); took != time.Minute || err == nil || !strings.Contains(err.Error(), "exceeded functionTimeout") {
				t.Errorf("answer %q: error %v after %v, want a time-out after 1m", body, err, took)
			}
		})
	}
}

// leased returns a host with one instance that shares an account with other hosts.
func leased(account *storage.Account, id string, f handlerFunc) *Host {
	h := newTestHost(hostjson.App{}, 1, f)
	h.id, h.own = id, account
	return h
}

// runs records the runs of a timer's function by several hosts.
type runs struct {
	start time.Time
	mu    sync.Mutex // guards list
	list  []string   // "SECOND HOST", and "late" if the run was past due
}

// by returns the handler of a host. It records each run, and fails with err unless err is nil.
func (x *runs) by(host string, err error) handlerFunc {
	return func(r *http.Request) (string, error) {
		body, _ := io.ReadAll(r.Body)
		run := fmt.Sprintf("%d %s", time.Since(x.start)/time.Second, host)
		if strings.Contains(string(body), `"IsPastDue":true`) {
			run += " late"
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		x.list = append(x.list, run)
		return "{}", err
	}
}

// want compares the recorded runs.
func (x *runs) want(t *testing.T, want ...string) {
	t.Helper()
	x.mu.Lock()
	defer x.mu.Unlock()
	if diff := cmp.Diff(want, x.list); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
}

// TestTimerLease: one of several hosts on a storage account keeps a timer. When this host ends in order, another host immediately gets the lease and the
// schedule's state. Failed runs do not change this.
func TestTimerLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, account := emulatortest.NewAccount(t, emulator.Options{})
		all := &runs{start: time.Now()}
		f := timerFunction(t, "0 * * * * *")
		var hosts sync.WaitGroup
		for i, id := range []string{"a", "b", "c"} {
			h := leased(account, id, all.by(id, errors.New("no")))
			ctx, stop := context.WithTimeout(t.Context(), 150*time.Second+time.Duration(i)*10*time.Minute)
			defer stop()
			time.Sleep(time.Second)
			hosts.Go(func() { h.keepTimer(ctx, t.Context(), f) })
		}
		kept := lease{table: account.Table(timerTable), name: f.Function.Name, holder: "a"}
		if got, err := kept.take(t.Context(), nil); err != nil || !got.Next.Equal(all.start.Add(time.Minute)) {
			t.Errorf("the lease has the state %+v, %v; want the next time in it from the first seconds on", got, err)
		}
		time.Sleep(5*time.Minute + 30*time.Second)
		all.want(t, "60 a", "120 a", "182 b late", "240 b", "300 b") // a ends after 151 s; b requests the lease once a minute from second 2 on
		hosts.Wait()
	})
}

// silent is a transport whose service does not answer while it is away.
type silent struct {
	next policy.Transporter
	away atomic.Bool
}

func (s *silent) Do(r *http.Request) (*http.Response, error) {
	if !s.away.Load() {
		return s.next.Do(r)
	}
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestLeaseLost: if a host cannot connect to storage, its lease expires after a minute. Another host gets the lease, and repeats the run that could not be
// recorded. When the first host is connected again, it no longer fires.
func TestLeaseLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		em := emulatortest.New(t, emulator.Options{})
		via, all := &silent{next: em.Transport()}, &runs{start: time.Now()}
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute+30*time.Second)
		defer stop()
		var hosts sync.WaitGroup
		for id, transport := range map[string]policy.Transporter{"a": via, "b": em.Transport()} {
			h := leased(emulatortest.Open(t, em, transport), id, all.by(id, nil))
			hosts.Go(func() {
				if id == "b" {
					time.Sleep(time.Second)
				}
				h.keepTimer(ctx, t.Context(), timerFunction(t, "0 * * * * *"))
			})
		}
		time.AfterFunc(70*time.Second, func() { via.away.Store(true) })
		time.AfterFunc(190*time.Second, func() { via.away.Store(false) })
		hosts.Wait()
		all.want(t, "60 a", "120 a", "121 b", "180 b", "240 b", "300 b")
	})
}

// TestTimerAfterOutage: runs that were missed while storage was away are made up for as soon as storage answers again.
func TestTimerAfterOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		em := emulatortest.New(t, emulator.Options{})
		via, all := &silent{next: em.Transport()}, &runs{start: time.Now()}
		h := leased(emulatortest.Open(t, em, via), "a", all.by("a", nil))
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
		defer stop()
		time.AfterFunc(40*time.Second, func() { via.away.Store(true) })
		time.AfterFunc(190*time.Second, func() { via.away.Store(false) })
		h.keepTimer(ctx, t.Context(), timerFunction(t, "0 * * * * *"))
		if got := all.list; len(got) < 3 || got[0] != "60 a" || got[1] < "190 a late" || got[1] > "230 a late" || got[2] != "240 a" {
			t.Errorf("the runs are %v; want one before 230 for the missed runs", got)
		}
	})
}

// refusing is a transport whose service refuses every request permanently, and counts the requests.
type refusing func()

func (f refusing) Do(r *http.Request) (*http.Response, error) {
	f()
	return &http.Response{StatusCode: http.StatusBadRequest, Header: http.Header{"X-Ms-Error-Code": {"InvalidInput"}}, Body: http.NoBody, Request: r}, nil
}

// TestTimerWithoutStorage: while storage is away, the host requests the lease, and logs a warning, every five seconds.
func TestTimerWithoutStorage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		account := emulatortest.Open(t, emulatortest.New(t, emulator.Options{}), refusing(func() { requests++ }))
		ctx, stop := context.WithTimeout(t.Context(), 58*time.Second)
		defer stop()
		leased(account, "a", nil).keepTimer(ctx, t.Context(), timerFunction(t, "0 * * * * *"))
		if requests != 12+1 { // the last request releases the lease
			t.Errorf("sent %d requests in 58 seconds, want 12 and one more at the end", requests)
		}
	})
}
