package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"tablesweep/internal/app/envelope"
	"tablesweep/internal/app/function"
	"tablesweep/internal/local/host"
	"tablesweep/internal/storage"
)

// The handler processes of these tests run this test program. Each process requests an order from the test for each request that it gets.
const (
	roleVariable  = "HOST_TEST_ROLE"  // child or host
	orderVariable = "HOST_TEST_ORDER" // the URL of the test that gives the orders; if empty, the answer is {}
)

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "child":
		child()
	case "host":
		orphanMaker()
	default:
		os.Exit(m.Run())
	}
}

// call is a request that a handler process received.
type call struct {
	Method, URI, Host string
	Header            http.Header
	Length            int64
	Body              string
	PID               int
}

// order is the work of the handler: it logs a text, and then exits, breaks the connection or answers.
type order struct {
	Stdout, Stderr string
	Exit           *int
	Break          bool // the connection is broken, without an answer
	Status         int  // default 200
	Header         map[string]string
	Body           string
}

// answer returns an order to answer with the envelope.
func answer(body string) order {
	return order{Header: map[string]string{"Content-Type": "application/json"}, Body: body}
}

func exit(code int) order { return order{Exit: &code} }

func child() {
	if s := os.Getenv("HOST_TEST_START"); s != "" {
		fmt.Fprintln(os.Stderr, s)
		os.Exit(3)
	}
	err := http.ListenAndServe("127.0.0.1:"+os.Getenv("FUNCTIONS_CUSTOMHANDLER_PORT"), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if secret := os.Getenv(envelope.SecretVariable); len(secret) < 20 || !slices.Equal(r.Header.Values(envelope.HeaderSecret), []string{secret}) {
			fmt.Fprintf(os.Stderr, "%s %s has no proof that the host sent it\n", r.Method, r.URL)
			os.Exit(5)
		}
		if r.URL.Path == "/" {
			w.Header().Set(envelope.HeaderWorker, os.Getenv(envelope.WorkerVariable))
			w.WriteHeader(http.StatusNotFound) // any answer is enough
			return
		}
		body, _ := io.ReadAll(r.Body)
		if os.Getenv(orderVariable) == "" {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, "{}")
			return
		}
		report, _ := json.Marshal(call{r.Method, r.RequestURI, r.Host, r.Header, r.ContentLength, string(body), os.Getpid()})
		resp, err := http.Post(os.Getenv(orderVariable), "application/json", bytes.NewReader(report))
		if err != nil {
			panic(err)
		}
		var o order
		if err := json.NewDecoder(resp.Body).Decode(&o); err != nil {
			panic(err)
		}
		fmt.Fprint(os.Stdout, o.Stdout)
		fmt.Fprint(os.Stderr, o.Stderr)
		if o.Exit != nil {
			os.Exit(*o.Exit)
		}
		if o.Break {
			panic(http.ErrAbortHandler)
		}
		for name, v := range o.Header {
			w.Header().Set(name, v)
		}
		if o.Status != 0 {
			w.WriteHeader(o.Status)
		}
		fmt.Fprint(w, o.Body)
	}))
	fmt.Fprintln(os.Stderr, err)
	os.Exit(4)
}

// orphanMaker runs an app until this process is killed.
func orphanMaker() {
	os.Setenv(roleVariable, "child")
	h, err := host.Start(context.Background(), host.Options{
		Root: os.Getenv("HOST_TEST_ROOT"), Executable: os.Args[0], Addr: "127.0.0.1:0", Instances: 2,
		Functions: []function.Function{webFunction("web")}, Settings: map[string]string{storage.HostConnection: "UseDevelopmentStorage=true"},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(h.PIDs())
	select {}
}

// orders is a server that records the calls of handlers, and returns an order for each call.
type orders struct {
	*httptest.Server
	give func(n int, c call) order // n counts the calls from 0

	mu    sync.Mutex // guards calls
	calls []call
}

func newOrders(t *testing.T, give func(n int, c call) order) *orders {
	t.Helper()
	o := &orders{give: give}
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var c call
		if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
			t.Error(err)
		}
		o.mu.Lock()
		n := len(o.calls)
		o.calls = append(o.calls, c)
		o.mu.Unlock()
		if err := json.NewEncoder(w).Encode(give(n, c)); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(o.Close)
	return o
}

func (o *orders) all() []call {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]call(nil), o.calls...)
}

// wait waits until there are n calls, and returns the calls.
func (o *orders) wait(t *testing.T, n int) []call {
	t.Helper()
	eventually(t, fmt.Sprintf("%d calls", n), func() bool { return len(o.all()) >= n })
	return o.all()
}

// journal is a log that can be searched.
type journal struct {
	mu   sync.Mutex // guards text
	text strings.Builder
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

// lines returns the log's lines that contain all of the parts.
func (j *journal) lines(parts ...string) (found []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
next:
	for line := range strings.Lines(j.text.String()) {
		for _, p := range parts {
			if !strings.Contains(line, p) {
				continue next
			}
		}
		found = append(found, line)
	}
	return found
}
