package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"tablesweep/internal/local/host"
	"tablesweep/internal/proof"
	"tablesweep/internal/storage"
	"tablesweep/internal/task"
)

var program = flag.String("program", "", "the program that BenchmarkInstanceMemory measures: another build of this one")

// mostEver is the number of megabytes above which a measured process is killed, so that it does not take all memory of the machine.
const mostEver = 6000

// programPath returns the path of the program that is measured.
func programPath(t testing.TB) string {
	name := *program
	if name == "" {
		name = "tablesweep"
	}
	path, err := exec.LookPath(name)
	proof.Must(t, err)
	path, err = filepath.Abs(path)
	proof.Must(t, err)
	return path
}

// instance is the app as in an instance in the cloud: a host and one handler process. Its storage is embedded in this process.
type instance struct {
	*host.Host
	account *storage.Account
	pid     int
	client  *http.Client
	log     buffer
	waits   waits
}

// startInstance starts an instance with the given megabytes of memory. The caller closes the instance.
func startInstance(t testing.TB, connection string, megabytes int) *instance {
	t.Helper()
	i := &instance{account: accountOf(t, connection), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1024}}}
	var err error
	i.Host, err = host.Start(context.WithoutCancel(t.Context()), host.Options{
		Root: "..", Executable: programPath(t), Addr: "127.0.0.1:0", Log: zerolog.New(&i.log),
		Settings: map[string]string{
			storage.HostConnection: connection, "WEBSITE_MEMORY_LIMIT_MB": fmt.Sprint(megabytes), "TABLESWEEP_LOG_LEVEL": "warn",
			"TABLE_CATALOG_NAME": "People", "TABLE_CATALOG_INDEX_KEYS": "eid", "TABLE_CATALOG_ROW_KEY": "name",
			"AzureFunctionsJobHost__extensions__queues__maxPollingInterval": "00:00:01",
		},
	})
	proof.Must(t, err)
	i.pid = i.PIDs()[0]
	return i
}

// measured runs work on a new instance, and returns the most megabytes that its handler took. The work ends if the handler takes more than [mostEver] or
// ends.
func measured(t testing.TB, connection string, megabytes int, work func(context.Context, *instance) error) (i *instance, peak float64, err error) {
	t.Helper()
	i = startInstance(t, connection, megabytes)
	defer i.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	watched := make(chan float64, 1)
	go func() { watched <- guard(ctx, cancel, i.pid) }()
	err = work(ctx, i)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	cancel(nil)
	return i, <-watched, err
}

// guard returns the most megabytes that a process took until ctx ended. It cancels ctx if that is more than [mostEver], or if the process ends.
func guard(ctx context.Context, cancel context.CancelCauseFunc, pid int) (peak float64) {
	for {
		now := highWater(pid)
		switch peak = max(peak, now); {
		case ctx.Err() != nil:
			return peak
		case now == 0:
			cancel(fmt.Errorf("the process ended; it had taken %.0f MB", peak))
		case now > mostEver:
			_ = syscall.Kill(pid, syscall.SIGKILL)
			cancel(fmt.Errorf("the process took more than %d MB", mostEver))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// send sends a request, and returns the status and, if it is short, the body of the answer. A long body is read and discarded.
func (i *instance) send(ctx context.Context, method, path string, body []byte, headers ...string) (status int, short []byte, err error) {
	resp, err := i.open(ctx, method, path, body, headers...)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	if short, err = io.ReadAll(io.LimitReader(resp.Body, 64<<10)); err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
	}
	if err == nil && resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") == "" {
		err = errors.New("503 without Retry-After")
	}
	return resp.StatusCode, short, err
}

// open sends a request, with headers such as Content-Encoding: gzip.
func (i *instance) open(ctx context.Context, method, path string, body []byte, headers ...string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, i.URL()+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Set(name, value)
	}
	return i.client.Do(r)
}

// scanStatus is the part of a scan's status that the test needs.
type scanStatus struct {
	State, Error string
	Rows         struct{ Scanned, Failed int64 }
}

// begin starts a scan, and returns the path of its status.
func (i *instance) begin(ctx context.Context, request string) (path string, err error) {
	var started struct{ StatusURL string }
	code, text, err := i.send(ctx, "POST", "/api/scans", []byte(request))
	if err == nil && code != http.StatusAccepted {
		err = fmt.Errorf("%s: status %d, %s", request, code, text)
	}
	if err == nil {
		err = json.Unmarshal(text, &started)
	}
	return started.StatusURL, err
}

// status reads a scan's status.
func (i *instance) status(ctx context.Context, path string) (s scanStatus, err error) {
	code, text, err := i.send(ctx, "GET", path, nil)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("GET %s: status %d, %s", path, code, text)
	}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	return s, err
}

// end waits for a scan's end, and returns an error unless the scan has succeeded.
func (i *instance) end(ctx context.Context, path string) error {
	for {
		s, err := i.status(ctx, path)
		switch {
		case err != nil:
			return err
		case s.State == "succeeded":
			return nil
		case s.State != "running":
			return fmt.Errorf("the scan %s: %s, %d failed rows", s.State, s.Error, s.Rows.Failed)
		}
		if !task.Sleep(ctx, 200*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// runScans runs all scans concurrently.
func runScans(requests ...string) func(context.Context, *instance) error {
	return func(ctx context.Context, i *instance) error {
		var g task.Group
		for _, request := range requests {
			g.Go(func() error {
				path, err := i.begin(ctx, request)
				if err != nil {
					return err
				}
				return i.end(ctx, path)
			})
		}
		return g.Wait()
	}
}

// numbered returns n texts, in which %d is replaced by their number.
func numbered(n int, format string) []string {
	list := make([]string, n)
	for k := range list {
		list[k] = strings.ReplaceAll(format, "%d", fmt.Sprint(k))
	}
	return list
}

// table and blobs return the places of scans.
func table(name string) string { return fmt.Sprintf(`{"table":%q}`, name) }
func blobs(container, prefix string) string {
	return fmt.Sprintf(`{"container":%q,"prefix":%q}`, container, prefix)
}

// scanRequest returns the request for a scan from one place to another.
func scanRequest(action, from, to string) string {
	return fmt.Sprintf(`{"source":%s,"action":{"type":%q,"destination":%s}}`, from, action, to)
}

// calls sends n calls concurrently. Each call must get one of the wanted statuses, or 503 if the instance has no free memory. At least one call must get a
// wanted status.
func calls(n int, call func(ctx context.Context, i *instance, k int) (status int, err error), want ...int) func(context.Context, *instance) error {
	return func(ctx context.Context, i *instance) error {
		var mu sync.Mutex
		got := map[int]int{}
		var g task.Group
		for k := range n {
			g.Go(func() error {
				status, err := call(ctx, i, k)
				mu.Lock()
				defer mu.Unlock()
				got[status]++
				return err
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
		i.waits.add(got)
		done := 0
		for _, status := range want {
			done += got[status]
			delete(got, status)
		}
		delete(got, http.StatusServiceUnavailable)
		if done == 0 || len(got) > 0 {
			return fmt.Errorf("%d calls got the wanted answers, with these statuses: %v; the others got %v", done, want, got)
		}
		return nil
	}
}

// until repeats a call that gets 503, after the time in its Retry-After.
func until(call func(ctx context.Context, i *instance, k int) (int, error)) func(ctx context.Context, i *instance, k int) (int, error) {
	return func(ctx context.Context, i *instance, k int) (int, error) {
		for {
			status, err := call(ctx, i, k)
			if err != nil || status != http.StatusServiceUnavailable {
				return status, err
			}
			i.waits.add(map[int]int{status: 1})
			if !task.Sleep(ctx, time.Second) {
				return 0, ctx.Err()
			}
		}
	}
}

// together does all works concurrently.
func together(works ...func(context.Context, *instance) error) func(context.Context, *instance) error {
	return func(ctx context.Context, i *instance) error {
		var g task.Group
		for _, work := range works {
			g.Go(func() error { return work(ctx, i) })
		}
		return g.Wait()
	}
}

// waits records how long small calls took, and how other calls were answered.
type waits struct {
	mu       sync.Mutex
	longest  time.Duration
	count    int
	statuses map[int]int
}

func (w *waits) add(statuses map[int]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.statuses == nil {
		w.statuses = map[int]int{}
	}
	for status, n := range statuses {
		w.statuses[status] += n
	}
}

func (w *waits) took(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count++
	w.longest = max(w.longest, d)
}

// String returns how often each status was answered.
func (w *waits) String() string {
	var b strings.Builder
	for _, status := range slices.Sorted(maps.Keys(w.statuses)) {
		fmt.Fprintf(&b, " %d: %d", status, w.statuses[status])
	}
	return strings.TrimSpace(b.String())
}

// beside does work, and sends small calls at the same time: a query by a key, the status of a copy of ordinary rows, which begins with the work, and health.
// Each call must be answered by 200, and the copy must succeed.
func beside(work func(context.Context, *instance) error) func(context.Context, *instance) error {
	return func(ctx context.Context, i *instance) error {
		path, err := i.begin(ctx, scanRequest("copy", table("orders"), table("ordinary"+fmt.Sprint(time.Now().UnixNano()))))
		if err != nil {
			return err
		}
		over := make(chan struct{})
		var g task.Group
		for _, small := range []string{"/api/catalog/records?eid=small", path, "/api/health"} {
			g.Go(func() error {
				for {
					start := time.Now()
					status, text, err := i.send(ctx, "GET", small, nil)
					if i.waits.took(time.Since(start)); err != nil || status != http.StatusOK {
						return fmt.Errorf("GET %s: status %d, %s, %v", small, status, text, err)
					}
					select {
					case <-over:
						return nil
					case <-time.After(50 * time.Millisecond):
					}
				}
			})
		}
		g.Go(func() error {
			defer close(over)
			return errors.Join(work(ctx, i), i.end(ctx, path))
		})
		return g.Wait()
	}
}
