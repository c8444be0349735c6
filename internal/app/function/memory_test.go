package function_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/rs/zerolog"

	"tablesweep/internal/app/function"
	"tablesweep/internal/catalog"
	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/record"
	"tablesweep/internal/scans/engine"
	"tablesweep/internal/stream/logtail"
	"tablesweep/internal/task/memory"
)

// newAppWithin returns an app whose work may use the given number of bytes.
func newAppWithin(t *testing.T, bytes int64) (*app, *memory.Budget) {
	t.Helper()
	a := newApp(t)
	a.parts.Memory = memory.NewBudget(bytes)
	a.Handler = function.Handler(function.Functions(a.parts), function.Host{}, zerolog.New(zerolog.SyncWriter(&a.log)))
	return a, a.parts.Memory
}

// checkFree fails the test unless all memory is free.
func checkFree(t *testing.T, b *memory.Budget, what string) {
	t.Helper()
	if u := b.Usage(); u.Used != 0 || u.Waiting != 0 {
		t.Errorf("%s: memory %+v, want all of it free", what, u)
	}
}

func gzipText(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(text))
	proof.Must(t, err)
	proof.Must(t, w.Close())
	return b.String()
}

// TestCallsWaitForMemory: while other work uses all memory, a large call waits for 10 s and gets an error with advice, and small calls do not wait. Waiting
// calls continue when memory is free.
func TestCallsWaitForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newAppWithin(t, 32<<20)
		_, at, _ := strings.Cut(a.send("POST", people, `{"eid":"1","lastname":"A"}`).Header().Get("Location"), "/api/")
		all, err := b.Take(t.Context(), 1<<40)
		proof.Must(t, err)
		large := "[" + strings.Repeat(`{"text":"`+strings.Repeat("x", 30_000)+`"},`, 10) + `{"a":1}]`
		start := time.Now()
		w := a.send("POST", "/api/log/orders", large)
		if took := time.Since(start); w.Code != 503 || w.Header().Get("Retry-After") == "" || took != 10*time.Second || !strings.Contains(w.Body.String(), "instanceMemoryMB") {
			t.Errorf("a large call: status %d after %v: %s; want 503 after 10s", w.Code, took, w.Body)
		}
		var waiting sync.WaitGroup
		for i := range 50 {
			waiting.Go(func() {
				if w := a.send("POST", fmt.Sprint("/api/log/s", i), large); w.Code != 201 {
					t.Errorf("a call that waited: status %d: %s; want 201", w.Code, w.Body)
				}
			})
		}
		synctest.Wait()
		if u := b.Usage(); u.Waiting != 50 {
			t.Errorf("memory %+v, want 50 waiting calls", u)
		}
		start = time.Now()
		for _, call := range []struct {
			method, path, body string
			status             int
		}{
			{"GET", people + "?eid=1", "", 200}, {"GET", people, "", 200}, {"GET", "/api/log/orders", "", 200}, {"GET", "/api/scans", "", 200},
			{"GET", "/api/health", "", 200}, {"GET", "/api/catalog/changes?after=1h", "", 200}, {"POST", "/api/log/orders", `{"a":1}`, 201},
			{"POST", people, `{"eid":"2","lastname":"B"}`, 201}, {"DELETE", "/api/catalog/records/" + strings.Repeat("0", 64), "", 404},
			{"PATCH", "/api/" + at, `{"npi":"5"}`, 200}, {"PUT", people + "?npi=5", `{"eid":"1","lastname":"A","npi":"6"}`, 200},
			{"PUT", people, `{"eid":"3","lastname":"C"}`, 201}, {"DELETE", people + "?npi=6", "", 200}, {"DELETE", people + "?eid=2", "", 200}, {"DELETE", "/api/" + at, "", 404},
		} {
			if w := a.send(call.method, call.path, call.body); w.Code != call.status {
				t.Errorf("%s %s: status %d, body %s", call.method, call.path, w.Code, w.Body)
			}
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("small calls took %v beside 50 waiting calls, want at most 1s", took)
		}
		all.Release()
		waiting.Wait()
		checkFree(t, b, "at the end")
	})
}

// TestLargeAnswersWithLittleMemory: if an answer needs more memory than is free without waiting, it is read again with more memory, and is complete.
func TestLargeAnswersWithLittleMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newAppWithin(t, 32<<20)
		records, _ := largeRecords(t, 40, 30_000)
		for _, done := range a.parts.Catalogs[""].InsertAll(t.Context(), record.Decoded(records), nil) {
			proof.Must(t, done.Err)
		}
		_, err := a.parts.Log.Append(t.Context(), "orders", record.Decoded(records))
		proof.Must(t, err)
		a.parts.Catalogs[""].Close()
		var calls sync.WaitGroup
		for range testsize.Of(2, 4) {
			for path, name := range map[string]string{people + "?npi=7": "records", people: "records", "/api/catalog/changes": "changes", "/api/log/orders": "events", "/api/log/orders?after=1h": "events", "/api/catalog/changes?after=1h": "changes"} {
				calls.Go(func() {
					var answer map[string]any
					w := a.fetch(t, "GET", path, "", &answer)
					if some, _ := answer[name].([]any); w.Code != 200 || len(some) < 40 && !strings.Contains(path, "after") { // after leaves out the newest items
						t.Errorf("%s: status %d, %d items, want 200 and 40 items: %.300s", path, w.Code, len(some), w.Body)
					}
				})
			}
		}
		calls.Wait()
		if u := b.Usage(); u.Most > u.Bytes || u.Most < 1<<20 {
			t.Errorf("%+v", u)
		}
		checkFree(t, b, "at the end")
	})
}

// stuck is a caller that does not read its answer until the channel read is closed.
type stuck struct {
	*httptest.ResponseRecorder
	wrote, read chan struct{}
	once        sync.Once
}

func (s *stuck) Write(p []byte) (int, error) {
	s.once.Do(func() { close(s.wrote) })
	<-s.read
	return s.ResponseRecorder.Write(p)
}

// TestCallsReleaseMemory: however a call ends, its part of the memory is free after that, and not before.
func TestCallsReleaseMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newAppWithin(t, 32<<20)
		a.call(t, "POST", people, `{"eid":"1","lastname":"A"}`, 201, "{")
		a.call(t, "POST", people, `{"eid":`, 400, "{")
		checkFree(t, b, "an error")
		a.call(t, "POST", "/api/log/orders", strings.Repeat("x", 5<<20), 413, "{")
		checkFree(t, b, "a body that is too large")

		all, err := b.Take(t.Context(), 1<<40)
		proof.Must(t, err)
		ctx, leave := context.WithCancel(t.Context())
		r := httptest.NewRequest("GET", people+"?top=1000", nil).WithContext(ctx)
		gone := make(chan struct{})
		small := []*memory.Part{}
		for range 8 { // all of the reserve, so that a small call waits as well
			if p, ok := b.TryTake(memory.Small); ok {
				small = append(small, p)
			}
		}
		go func() {
			defer close(gone)
			a.ServeHTTP(httptest.NewRecorder(), r)
		}()
		synctest.Wait()
		if u := b.Usage(); u.Waiting != 1 {
			t.Errorf("memory %+v, want one waiting call", u)
		}
		leave()
		<-gone
		for _, p := range append(small, all) {
			p.Release()
		}
		checkFree(t, b, "a caller that has disconnected")

		slow := &stuck{ResponseRecorder: httptest.NewRecorder(), wrote: make(chan struct{}), read: make(chan struct{})}
		done := make(chan struct{})
		go func() {
			defer close(done)
			a.ServeHTTP(slow, httptest.NewRequest("GET", people, nil))
		}()
		<-slow.wrote
		if u := b.Usage(); u.Used == 0 || u.Used > 64<<10 {
			t.Errorf("memory %+v while a caller does not read an answer with one small record", u)
		}
		close(slow.read)
		<-done
		checkFree(t, b, "a slow reader")

		broken := a.parts
		broken.Engine, broken.Log = engine.Engine{}, nil
		panics := function.Handler(function.Functions(broken), function.Host{}, zerolog.Nop())
		for _, call := range []string{"GET /api/scans", "GET /api/log/orders", "POST /api/log/orders"} {
			method, path, _ := strings.Cut(call, " ")
			w := httptest.NewRecorder()
			panics.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(`{"a":1}`)))
			if w.Code != http.StatusInternalServerError {
				t.Errorf("%s: status %d, want 500 after a panic", call, w.Code)
			}
			checkFree(t, b, call+" that panics")
		}
	})
}

// TestCompressedBodiesReserveMemory: large compressed bodies wait for each other, and all succeed, whatever their compressed size. After a body has arrived,
// its call uses only the memory that it needs. If there is no memory in time, the answer is 503.
func TestCompressedBodiesReserveMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newAppWithin(t, 32<<20)
		text := "[" + strings.Repeat(`{"text":"`+strings.Repeat("x", 30_000)+`"},`, 60) + `{"a":1}]`
		body := gzipText(t, text)
		post := func(w http.ResponseWriter) {
			r := httptest.NewRequest("POST", "/api/log/orders", strings.NewReader(body))
			r.Header.Set("Content-Encoding", "gzip")
			a.ServeHTTP(w, r)
		}
		var calls sync.WaitGroup
		for range 10 {
			calls.Go(func() {
				w := httptest.NewRecorder()
				if post(w); w.Code != 201 {
					t.Errorf("a call with a compressed body: status %d, body %.300s; want 201", w.Code, w.Body)
				}
			})
		}
		calls.Wait()
		slow := &stuck{ResponseRecorder: httptest.NewRecorder(), wrote: make(chan struct{}), read: make(chan struct{})}
		calls.Go(func() { post(slow) })
		<-slow.wrote
		if u := b.Usage(); u.Used < int64(len(text)) || u.Used > 4*int64(len(text)) {
			t.Errorf("memory %+v while a caller does not read the answer to a body of %d bytes", u, len(text))
		}
		close(slow.read)
		calls.Wait()
		most, err := b.Take(t.Context(), 26<<20)
		proof.Must(t, err)
		w := httptest.NewRecorder()
		if post(w); w.Code != 503 || w.Header().Get("Retry-After") == "" {
			t.Errorf("without memory: status %d: %.300s; want 503 and Retry-After", w.Code, w.Body)
		}
		most.Release()
		checkFree(t, b, "at the end")
	})
}

// TestSmallBodiesOfUnknownLengthDoNotWait: while other work uses all memory, one event in a chunked or compressed body does not wait, and the error of such
// a body is reported.
func TestSmallBodiesOfUnknownLengthDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newAppWithin(t, 32<<20)
		a.call(t, "POST", "/api/log/orders", `{"a":1}`, 201, "{")
		all, err := b.Take(t.Context(), 1<<40)
		proof.Must(t, err)
		for _, call := range []struct {
			body, encoding string
			status         int
		}{{`{"a":1}`, "", 201}, {gzipText(t, `{"a":1}`), "gzip", 201}, {"no gzip", "gzip", 400}, {gzipText(t, `{"a":1}`)[:20], "gzip", 400}} {
			r := httptest.NewRequest("POST", "/api/log/orders", strings.NewReader(call.body))
			r.ContentLength = -1
			r.Header.Set("Content-Encoding", call.encoding)
			w, start := httptest.NewRecorder(), time.Now()
			if a.ServeHTTP(w, r); w.Code != call.status || time.Since(start) > time.Second {
				t.Errorf("body %q: status %d after %v: %s", call.body, w.Code, time.Since(start), w.Body)
			}
		}
		all.Release()
		checkFree(t, b, "at the end")
	})
}

// TestSlowBodies: while a caller sends a small body slowly, only the bytes that have arrived use memory, and small calls do not wait. If too many such bytes
// have arrived, the next slow body is refused immediately. Other calls are not refused.
func TestSlowBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newAppWithin(t, 32<<20)
		a.call(t, "POST", people, `{"eid":"1","lastname":"A"}`, 201, "{")
		const length = 19_000
		var ends []*io.PipeWriter
		refused := atomic.Int64{}
		more := func(path string, n, bytes int) {
			for range n {
				body, end := io.Pipe()
				ends = append(ends, end)
				r := httptest.NewRequest("POST", path, body)
				r.ContentLength = length
				go func() {
					w := httptest.NewRecorder()
					if a.ServeHTTP(w, r); w.Code == 503 {
						refused.Add(1)
					}
					body.Close()
				}()
				_, _ = end.Write(make([]byte, bytes)) // fails if the body is refused earlier
			}
			synctest.Wait()
		}
		more("/api/scans", 20, 1000) // more than the number of calls that have a small part at the same time
		more(people, 20, length-1)
		if u := b.Usage(); u.Used != 20*(1000+length-1) || refused.Load() > 0 {
			t.Errorf("memory %+v, %d bodies refused; want memory for the arrived bytes, and no refusal", u, refused.Load())
		}
		more(people, 20, length-1)
		if u := b.Usage(); u.Used > 512<<10 {
			t.Errorf("memory %+v, want at most the limit of slow bodies", u)
		}
		for _, path := range []string{"/api/scans", people + "?eid=1"} {
			start := time.Now()
			if w := a.send("GET", path, ""); w.Code != 200 || time.Since(start) > time.Second {
				t.Errorf("%s beside 60 slow bodies: status %d after %v, want 200 within 1s", path, w.Code, time.Since(start))
			}
		}
		for _, end := range ends {
			end.Close()
		}
		synctest.Wait()
		if refused.Load() == 0 || refused.Load() > 20 {
			t.Errorf("%d of 60 slow bodies were refused, want 1 to 20", refused.Load())
		}
		checkFree(t, b, "at the end")
	})
}

// TestUncertainNeedWaitsForHalfTheMemory: a call whose need is still unknown waits for at most half of the memory.
func TestUncertainNeedWaitsForHalfTheMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newAppWithin(t, 20<<20)
		records, _ := largeRecords(t, 1, 400_000)
		proof.Must(t, a.parts.Catalogs[""].InsertAll(t.Context(), record.Decoded(records), nil)[0].Err)
		other, err := b.Take(t.Context(), b.Half()-memory.Small)
		proof.Must(t, err)
		for _, call := range []struct {
			method, path, body string
			status             int
		}{
			{"PATCH", people + "?npi=7", `{"x":1}`, 200}, {"GET", people + "?npi=7", "", 200},
			{"POST", "/api/log/orders", gzipText(t, "["+strings.Repeat(`{"text":"`+strings.Repeat("x", 30_000)+`"},`, 9)+`{"a":1}]`), 201},
		} {
			r := httptest.NewRequest(call.method, call.path, strings.NewReader(call.body))
			if call.status == 201 {
				r.Header.Set("Content-Encoding", "gzip")
			}
			w, start := httptest.NewRecorder(), time.Now()
			if a.ServeHTTP(w, r); w.Code != call.status || time.Since(start) > time.Second {
				t.Errorf("%s %s: status %d after %v: %.200s", call.method, call.path, w.Code, time.Since(start), w.Body)
			}
		}
		other.Release()
		checkFree(t, b, "at the end")
	})
}

// TestLargeRowsStayWithinTheBudget: a single call in a new process reads large rows of all shards, or of several index keys, within the budget.
func TestLargeRowsStayWithinTheBudget(t *testing.T) {
	testsize.InFull(t)
	a, _ := newAppWithin(t, 1<<30)
	records, _ := largeRecords(t, 160, 200_000)
	for _, done := range a.parts.Catalogs[""].InsertAll(t.Context(), record.Decoded(records), nil) {
		proof.Must(t, done.Err)
	}
	a.parts.Catalogs[""].Close()
	for what, read := range map[string]func(context.Context, *catalog.Catalog) error{
		"the changes after a position": func(ctx context.Context, c *catalog.Catalog) error {
			_, err := c.ChangesAfter(ctx, "1h", 1000, func(catalog.Change) {})
			return err
		},
		"the newest changes": func(ctx context.Context, c *catalog.Catalog) error {
			_, err := c.Changes(ctx, 1000, "", time.Time{}, func(catalog.Change) bool { return true })
			return err
		},
		"records of several values": func(ctx context.Context, c *catalog.Catalog) error {
			_, err := c.Find(ctx, catalog.Lookup{Keys: map[string]string{"npi": "7"}, Or: map[string][]string{"npi": {"8", "9"}}, Top: 1000})
			return err
		},
	} {
		c := newCatalog(t, a.account, "People", "eid,npi,ssn:digits", "lastname")
		err, tries := memory.ErrFull, 0
		for ctx := t.Context(); errors.Is(err, memory.ErrFull); ctx = logtail.Fewer(ctx) {
			b := memory.NewBudget(48 << 20)
			part, takeErr := b.Take(t.Context(), 1<<40)
			proof.Must(t, takeErr)
			if err = read(part.In(ctx), c); err == nil && part.Wanted() > b.Usage().Bytes {
				t.Errorf("%s: used %d bytes of a budget of %d", what, part.Wanted(), b.Usage().Bytes)
			}
			part.Release()
			tries++
		}
		if err != nil || tries > 6 {
			t.Errorf("%s: error %v after %d tries, want none within 6", what, err, tries)
		}
	}
}

// TestRecordByIDReservesMemory: a call for one record by its id uses memory for the record, also while the caller reads the answer slowly.
func TestRecordByIDReservesMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newAppWithin(t, 32<<20)
		_, texts := largeRecords(t, 1, 400_000)
		_, at, _ := strings.Cut(a.send("POST", people, texts[0]).Header().Get("Location"), "/api/")
		slow := &stuck{ResponseRecorder: httptest.NewRecorder(), wrote: make(chan struct{}), read: make(chan struct{})}
		go a.ServeHTTP(slow, httptest.NewRequest("GET", "/api/"+at, nil))
		<-slow.wrote
		if u := b.Usage(); u.Used < 400_000 || u.Used > 2<<20 {
			t.Errorf("memory %+v while a caller does not read a record of 400 KB", u)
		}
		close(slow.read)
		synctest.Wait()
		if slow.Code != 200 || slow.Body.Len() < 400_000 {
			t.Errorf("status %d with %d bytes, want 200 and the record", slow.Code, slow.Body.Len())
		}
		checkFree(t, b, "at the end")
	})
}

// counting counts requests.
type counting struct {
	policy.Transporter
	n atomic.Int64
}

// Do implements [policy.Transporter].
func (c *counting) Do(r *http.Request) (*http.Response, error) {
	c.n.Add(1)
	return c.Transporter.Do(r)
}

// TestOrdinaryAnswersAfterLargeRows: after a large row and large events of another stream were read, an ordinary list takes as many requests as before.
func TestOrdinaryAnswersAfterLargeRows(t *testing.T) {
	em := emulatortest.New(t, emulator.Options{})
	requests := &counting{Transporter: em.Transport()}
	a := newAppVia(t, em, requests)
	var small []record.Record
	for i := range 300 {
		r, err := record.Parse([]byte(fmt.Sprintf(`{"eid":"s%04d","lastname":"L","npi":"9","text":"%s"}`, i, strings.Repeat("x", 500))))
		proof.Must(t, err)
		small = append(small, r)
	}
	big, _ := largeRecords(t, 4, 400_000)
	write := func(stream string, records []record.Record, stored int) {
		for _, done := range a.parts.Catalogs[""].InsertAll(t.Context(), record.Decoded(records[:stored]), nil) {
			proof.Must(t, done.Err)
		}
		_, err := a.parts.Log.Append(t.Context(), stream, record.Decoded(records))
		proof.Must(t, err)
	}
	lists := []string{people + "?npi=9&top=300", people + "?top=300", "/api/catalog/changes?top=300", "/api/log/orders?top=300"}
	before := map[string]int64{}
	measure := func(path string) int64 {
		start := requests.n.Load()
		a.call(t, "GET", path, "", 200, "{")
		return requests.n.Load() - start
	}
	write("orders", small, len(small))
	for _, path := range lists {
		measure(path) // the first call records the size of rows
		before[path] = measure(path)
	}
	write("other", big, 1)
	for _, path := range lists {
		for _, large := range []string{people + "?npi=7", "/api/catalog/changes?top=1", "/api/log/other"} {
			a.call(t, "GET", large, "", 200, "{")
		}
		if now := measure(path); now > before[path] {
			t.Errorf("%s: %d requests before large rows were read, %d after", path, before[path], now)
		}
	}
}
