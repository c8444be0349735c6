package host_test

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"tablesweep/internal/app/function"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/local/host"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/outagetest"
	"tablesweep/internal/storage"
)

// hostJSON returns a host.json with the given sections.
func hostJSON(sections string) string {
	return `{"version":"2.0",` + sections + `"customHandler":{"description":{"defaultExecutablePath":"absent"},"enableProxyingHttpRequest":true}}`
}

const fastQueues = `"extensions":{"queues":{"maxPollingInterval":"00:00:00.1","maxDequeueCount":3}},`

var workFunction = function.Function{Name: "Work", Trigger: function.Queue, Queue: "work"}

// webFunction returns the HTTP function Web, which needs no key.
func webFunction(route string, methods ...string) function.Function {
	return function.Function{Name: "Web", Trigger: function.HTTP, Route: route, Methods: methods, Anonymous: true}
}

// rig is a running app with its storage.
type rig struct {
	*host.Host
	settings     map[string]string
	log          *journal
	work, poison *storage.Queue
	emulator     *emulator.Emulator
}

// writeApp creates an app's directory with host.json, and returns the path.
func writeApp(t *testing.T, hostJSON string) string {
	t.Helper()
	root := t.TempDir()
	proof.Must(t, os.WriteFile(filepath.Join(root, "host.json"), []byte(hostJSON), 0o600))
	return root
}

// quick returns times that are short enough for tests.
func quick() host.Times {
	const short = 100 * time.Millisecond
	return host.Times{Drain: short, Grace: short, Pause: short, Restart: short}
}

// newRig creates the storage of an app whose handlers follow orders.
func newRig(t *testing.T, o *orders) *rig {
	t.Helper()
	em, account := emulatortest.NewAccount(t, emulator.Options{})
	var err error
	r := &rig{emulator: em, log: &journal{}, settings: map[string]string{storage.HostConnection: emulatortest.Serve(t, em), roleVariable: "child", orderVariable: o.URL}}
	r.work, err = account.Queue("work")
	proof.Must(t, err)
	r.poison, err = account.Queue("work-poison")
	proof.Must(t, err)
	proof.Must(t, r.work.Create(t.Context())) // as the app does, because the host does not create it
	return r
}

// start starts the app. If the options have no functions, the app has the function Work.
func (r *rig) start(t *testing.T, sections string, options host.Options) {
	t.Helper()
	options.Root, options.Executable = writeApp(t, hostJSON(sections)), os.Args[0]
	if options.Functions == nil {
		options.Functions = []function.Function{workFunction}
	}
	if options.Addr == "" {
		options.Addr = "127.0.0.1:0"
	}
	options.Log, options.Settings = zerolog.New(r.log), r.settings
	if options.Times == (host.Times{}) {
		options.Times = quick()
	}
	var err error
	r.Host, err = host.Start(t.Context(), options)
	proof.Must(t, err)
	t.Cleanup(r.Close)
}

// startRig starts an app whose handlers follow orders.
func startRig(t *testing.T, o *orders, sections string, options host.Options) *rig {
	t.Helper()
	r := newRig(t, o)
	r.start(t, sections, options)
	return r
}

func put(t *testing.T, q *storage.Queue, text string) {
	t.Helper()
	proof.Must(t, q.Put(t.Context(), text))
}

func encode(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// settle waits until a queue contains n messages.
func settle(t *testing.T, q *storage.Queue, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("queue %s has %d messages", q.Name(), n), func() bool {
		got, err := q.Length(t.Context())
		return err == nil && got == n || n == 0 && storage.NotFound(err)
	})
}

// eventually waits for an effect of other processes.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	end, limited := t.Deadline()
	for !ok() {
		if limited && time.Until(end) < 10*time.Second {
			t.Fatalf("this did not happen before the test's deadline: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestQueueInvocation(t *testing.T) {
	t.Parallel()
	o := newOrders(t, func(int, call) order {
		out := answer(`{"Logs":["from the answer"],"Outputs":{},"ReturnValue":null}`)
		out.Stdout, out.Stderr = "to stdout\n", "to stderr\nwith a Warning"
		return out
	})
	r := startRig(t, o, fastQueues, host.Options{})
	put(t, r.work, encode(`{"a":"é"}`))
	c := o.wait(t, 1)[0]
	if c.Method != "POST" || c.URI != "/Work" || c.Length != -1 {
		t.Errorf("%s %s with length %d, want POST /Work, chunked", c.Method, c.URI, c.Length)
	}
	for name, want := range map[string]string{
		"Content-Type": "application/json; charset=utf-8", "User-Agent": "Azure-Functions-Host/4.0.0.0",
		"X-Azure-Functions-Hostversion": "4.0.0.0", "Accept-Encoding": "",
	} {
		if got := c.Header.Get(name); got != want {
			t.Errorf("header %s is %q, want %q", name, got, want)
		}
	}
	id := c.Header.Get("X-Azure-Functions-InvocationId")
	if len(id) != 36 {
		t.Errorf("invocation id %q", id)
	}
	if want := `{"Data":{"item":"\"{\\\"a\\\":\\\"é\\\"}\""},"Metadata":{"DequeueCount":"1",`; !strings.HasPrefix(c.Body, want) {
		t.Errorf("document %s, want it to begin with %s", c.Body, want)
	}
	settle(t, r.work, 0)
	for _, want := range [][]string{
		{`"info"`, `"from the answer"`, id},
		{`"info"`, `"to stdout"`},
		{`"error"`, `"to stderr"`},
	} {
		eventually(t, fmt.Sprint("log line ", want), func() bool { return len(r.log.lines(want...)) == 1 })
	}
	r.Close() // a line that the handler wrote without a line end is logged when it ends
	if len(r.log.lines(`"warn"`, `"with a Warning"`)) != 1 {
		t.Error("the line on stderr with \"Warning\" is not logged as a warning")
	}
}

func TestQueueRetryAndPoison(t *testing.T) {
	t.Parallel()
	o := newOrders(t, func(n int, _ call) order {
		switch n {
		case 0:
			return order{Status: 500}
		case 1:
			return order{Body: "{}"} // without Content-Type: application/json
		}
		return answer("[]")
	})
	r := startRig(t, o, fastQueues, host.Options{})
	text := encode("hopeless")
	put(t, r.work, text)
	settle(t, r.poison, 1)
	settle(t, r.work, 0)
	calls := o.all()
	if len(calls) != 3 {
		t.Fatalf("%d deliveries, want maxDequeueCount, 3", len(calls))
	}
	for i, c := range calls {
		if want := fmt.Sprintf(`"DequeueCount":"%d"`, i+1); !strings.Contains(c.Body, want) {
			t.Errorf("delivery %d without %s: %s", i+1, want, c.Body)
		}
	}
	got, err := r.poison.Get(t.Context(), 1, time.Minute)
	if err != nil || got[0].Text != text {
		t.Fatalf("poisoned %v, %v, want %q", got, err, text)
	}
	if life := got[0].Expires.Sub(got[0].Inserted); life != 7*24*time.Hour {
		t.Errorf("a poison message expires after %v, want 7 days", life)
	}
}

// TestCrash: a crash fails the invocations of its process, and their messages reappear. The process is restarted after every crash.
func TestCrash(t *testing.T) {
	t.Parallel()
	o := newOrders(t, func(n int, _ call) order {
		if n < 4 {
			return exit([]int{9, 0, 9, 9}[n])
		}
		return answer("{}")
	})
	queues := `"extensions":{"queues":{"maxPollingInterval":"00:00:00.1","maxDequeueCount":9}},`
	r := startRig(t, o, queues, host.Options{})
	put(t, r.work, encode("a"))
	calls := o.wait(t, 5)
	settle(t, r.work, 0)
	seen := map[int]bool{}
	for _, c := range calls {
		seen[c.PID] = true
	}
	if len(seen) != 5 {
		t.Errorf("the messages were delivered to %d processes, want 5", len(seen))
	}
	if got := len(r.log.lines("exited with code 9, and is being restarted")); got != 3 {
		t.Errorf("%d crashes logged, want 3", got)
	}
}

// TestStorageFails: a host starts without its storage, and works when the storage is available. If the storage then refuses connections or does not answer,
// the host keeps its processes. Soon after the storage answers again, everything works.
func TestStorageFails(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]outagetest.Mode{"refuses": outagetest.Refuse, "hangs": outagetest.Hang} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOrders(t, func(int, call) order { return answer("{}") })
			r := newRig(t, o)
			way := outagetest.New(t, r.settings[storage.HostConnection])
			r.settings[storage.HostConnection] = way.Connection
			put(t, r.work, encode("before"))
			way.Set(outagetest.Refuse)
			r.start(t, fastQueues, host.Options{Instances: 2})
			eventually(t, "each instance has a process", func() bool { return !slices.Contains(r.PIDs(), 0) })
			pids := r.PIDs()
			way.Set(outagetest.Forward)
			settle(t, r.work, 0)
			way.Set(mode)
			eventually(t, "each instance has logged that it cannot read the queue", func() bool {
				return len(r.log.lines("cannot read the queue", `"instance":0`)) >= 2 && len(r.log.lines("cannot read the queue", `"instance":1`)) >= 2
			})
			way.Set(outagetest.Forward)
			put(t, r.work, encode("after"))
			settle(t, r.work, 0)
			if !cmp.Equal(r.PIDs(), pids) {
				t.Errorf("the processes were %v, and are now %v; want the same", pids, r.PIDs())
			}
		})
	}
}

// TestFunctionTimeout: if a function runs too long, its process is killed, and the process's other invocations fail.
func TestFunctionTimeout(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	o := newOrders(t, func(n int, c call) order {
		if n < 2 {
			<-release
		}
		return answer("{}")
	})
	t.Cleanup(func() { close(release) })
	// The retries begin after the process has been killed, 100 ms after the time-out.
	sections := strings.Replace(`"functionTimeout":"00:00:01",`+fastQueues, `"maxDequeue`, `"visibilityTimeout":"00:00:01","maxDequeue`, 1)
	r := startRig(t, o, sections, host.Options{})
	put(t, r.work, encode("a"))
	put(t, r.work, encode("b"))
	calls := o.wait(t, 4)
	settle(t, r.work, 0)
	if calls[0].PID != calls[1].PID || calls[2].PID == calls[0].PID || calls[3].PID != calls[2].PID {
		t.Errorf("the invocations ran in the processes %d %d %d %d, want one process, and another for the retries", calls[0].PID, calls[1].PID, calls[2].PID, calls[3].PID)
	}
	if len(r.log.lines("exceeded functionTimeout")) == 0 || len(r.log.lines("exited with code")) != 0 {
		t.Error("the log must report a time-out and not a failure")
	}
}

// TestExit: a handler that ends with code 200 is restarted. This is not a failure.
func TestExit(t *testing.T) {
	t.Parallel()
	o := newOrders(t, func(n int, _ call) order {
		if n < 4 {
			return exit(200)
		}
		return order{Status: 201}
	})
	r := startRig(t, o, "", host.Options{Functions: []function.Function{webFunction("web"), workFunction}})
	pid := 0
	for n := range 5 {
		eventually(t, "another process", func() bool { return r.PIDs()[0] != pid && r.PIDs()[0] != 0 })
		pid = r.PIDs()[0]
		if resp := post(t, r.URL()+"/api/web"); resp.StatusCode != []int{500, 500, 500, 500, 201}[n] {
			t.Errorf("request %d: status %d, want 200", n, resp.StatusCode)
		}
	}
	if len(o.all()) != 5 || len(r.log.lines("process has ended, and is being restarted")) != 4 || len(r.log.lines("exited with code")) != 0 {
		t.Error("exit code 200 must restart the handler, and be no error")
	}
}

func TestStartFails(t *testing.T) {
	t.Parallel()
	good := hostJSON("")
	storageless := map[string]string{storage.HostConnection: ""}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	proof.Must(t, err)
	t.Cleanup(func() { _ = taken.Close() })
	tests := []struct {
		name    string
		host    string // the content of host.json
		options host.Options
		want    string
	}{
		{"no app", "", host.Options{Root: t.TempDir()}, "not the root of a function app"},
		{"bad app", `{}`, host.Options{}, "version must be"},
		{"no executable", good, host.Options{}, "absent"},
		{"handler exits", good, host.Options{Executable: os.Args[0], Settings: map[string]string{roleVariable: "child", "HOST_TEST_START": "no luck"}}, "with code 3"},
		{"address taken", good, host.Options{Addr: taken.Addr().String()}, "address already in use"},
		{"no storage", good, host.Options{Settings: storageless}, "setting AzureWebJobsStorage is missing"},
		{"requests by document", strings.Replace(good, "true", "false", 1), host.Options{}, "enableProxyingHttpRequest must be true"},
		{"bad schedule", good, host.Options{Functions: []function.Function{{Name: "Tick", Trigger: function.Timer, Schedule: "often"}}}, "function Tick"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if test.options.Root == "" {
				test.options.Root = writeApp(t, test.host)
			}
			if _, own := test.options.Settings[storage.HostConnection]; !own {
				settings := map[string]string{storage.HostConnection: "UseDevelopmentStorage=true"}
				maps.Copy(settings, test.options.Settings)
				test.options.Settings = settings
			}
			if test.options.Addr == "" {
				test.options.Addr = "127.0.0.1:0"
			}
			h, err := host.Start(t.Context(), test.options)
			if err == nil {
				h.Close()
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}
