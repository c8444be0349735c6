package emulator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"tablesweep/internal/local/emulator"
	"tablesweep/internal/local/emulator/fault"
	"tablesweep/internal/proof"
)

// inProcess returns an emulator and an account that is connected to it without sockets.
func inProcess(t testing.TB, faults string) (*emulator.Emulator, backend) {
	t.Helper()
	e := newEmulator(t, emulator.Options{})
	b := local(t, e)
	if got := b.createTable(t, "rows"); got.status != 201 {
		t.Fatal(got)
	}
	proof.Must(t, e.SetFaults(faults))
	return e, b
}

// local returns the account of an emulator, connected without sockets.
func local(t testing.TB, e *emulator.Emulator) backend {
	t.Helper()
	a := newAccount(t, e.ConnectionString())
	a.http = &http.Client{Transport: e.Transport()}
	return backend{account: a}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, fault string
		status      int
		code        string
		header      string // of Retry-After
		applied     bool
	}{
		{"busy", "busy p=1 times=1 on=insert", 503, "ServerBusy", "", false},
		{"busy", "busy p=1 times=1 on=insert retry-after=1500ms", 503, "ServerBusy", "2", false},
		{"timeout-before", "timeout-before p=1 times=1 on=insert", 500, "OperationTimedOut", "", false},
		{"timeout-after", "timeout-after p=1 times=1 on=insert", 500, "OperationTimedOut", "", true},
	} {
		t.Run(c.fault, func(t *testing.T) {
			t.Parallel()
			e, b := inProcess(t, c.fault)
			got := b.insert(t, "rows", "p", "r", "")
			check(t, "first try", got, c.status, c.code)
			same(t, "Retry-After", got.header.Get("Retry-After"), c.header)
			if c.applied {
				check(t, "second try", b.insert(t, "rows", "p", "r", ""), 409, "EntityAlreadyExists")
			} else {
				check(t, "second try", b.insert(t, "rows", "p", "r", ""), 204, "")
			}
			same(t, "fired", e.FaultCounts(), map[string]int{c.name: 1})
			same(t, "inserts", e.Counts().Insert, int64(2))
		})
	}
}

// HTTP clients see damaged answers as complete. A request with half an answer is carried out completely.
func TestDamagedAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault, contentType, body string
		rows                     []string // after the insert
	}{
		{"html", "text/html", "<html><body>Sign in to use the network.</body></html>", []string{}},
		{"empty", "application/json", "", []string{}},
		{"braces", "application/json", "{}", []string{}},
		{"half", "application/json;odata=nometadata;streaming=true;charset=utf-8", `{"value":[{"P`, []string{"p/r"}},
	} {
		t.Run(c.fault, func(t *testing.T) {
			t.Parallel()
			e, b := inProcess(t, c.fault+" p=1 times=1 on=insert,query table=rows")
			same(t, "insert's status", b.insert(t, "rows", "p", "r", "").status, 200)
			got := b.table(t, request{method: "GET", path: "/rows()", query: "$select=PartitionKey,RowKey", header: map[string]string{"Accept": "application/json;odata=nometadata"}})
			same(t, "query's status", got.status, 200)
			same(t, "type", got.header.Get("Content-Type"), c.contentType)
			same(t, "body", string(got.body[:min(len(got.body), len(c.body))]), c.body)
			same(t, "marked", got.header.Get("x-ms-version") != "", c.fault != "html")
			same(t, "fired", e.FaultCounts(), map[string]int{c.fault: 2})
			proof.Must(t, e.SetFaults(""))
			same(t, "rows", b.all(t, "rows", ""), c.rows)
		})
	}
}

// Clients see a reset as a reset, in process and over TCP.
func TestResets(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"reset-before", "reset-after"} {
		for _, way := range []string{"transport", "http"} {
			t.Run(fault+" "+way, func(t *testing.T) {
				t.Parallel()
				e, b := inProcess(t, fault+" p=1 times=1 on=batch")
				if way == "http" {
					b.account = newAccount(t, serve(t, e))
				}
				req := b.tableRequest(t, b.batchRequest([]batchOp{{"PUT", entityPath("rows", "p", "r"), nil, "{}"}}))
				resp, err := b.http.Do(req)
				if err == nil {
					resp.Body.Close()
				}
				if !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("got error %v, want a reset", err)
				}
				want := []string{}
				if fault == "reset-after" {
					want = []string{"p/r"}
				}
				same(t, "rows", b.all(t, "rows", ""), want)
				same(t, "fired", e.FaultCounts(), map[string]int{fault: 1})
			})
		}
	}
}

// However short the pages are, following the tokens returns every row once.
func TestShortAndEmptyPages(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{"short-page p=1", "short-page p=1 rows=7", "empty-page p=0.7", "seed=2; short-page p=0.5; empty-page p=0.5", "empty-page p=1 times=3"} {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			e, b := inProcess(t, "")
			b.fill(t, "rows", 5, 30)
			want := b.all(t, "rows", "")
			proof.Must(t, e.SetFaults(spec))
			var got []string
			next := ""
			empty, short := 0, 0
			for seen := map[string]bool{}; ; {
				p := b.query(t, "rows", "$top=20", next)
				got = append(got, rowKeys(t, p)...)
				if p.next == "" {
					break
				}
				if seen[p.next] || len(seen) > 1000 {
					t.Fatalf("the pages do not end: after %d pages, the token is %s", len(seen), p.next)
				}
				seen[p.next], next = true, p.next
				if len(p.rows) == 0 {
					empty++
				} else if len(p.rows) < 20 {
					short++
				}
			}
			same(t, "rows", got, want)
			fired := maps.Clone(e.FaultCounts())
			wantFired := map[string]int{"empty-page": empty, "short-page": short}
			maps.DeleteFunc(wantFired, func(_ string, n int) bool { return n == 0 })
			same(t, "fired", fired, wantFired)
			if len(fired) == 0 {
				t.Error("nothing fired")
			}
		})
	}
}

func rowKeys(t testing.TB, p page) []string {
	t.Helper()
	var keys []string
	for _, raw := range p.rows {
		var row struct{ PartitionKey, RowKey string }
		proof.Must(t, json.Unmarshal(raw, &row))
		keys = append(keys, row.PartitionKey+"/"+row.RowKey)
	}
	return keys
}

func TestQueueFaults(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, b := inProcess(t, "duplicate p=1 queue=twice; delay p=1 by=1m queue=later")
		for _, name := range []string{"twice", "later"} {
			check(t, "create", b.queue(t, request{method: "PUT", path: "/" + name}), 201, "")
			same(t, "put", b.put(t, name, "x", "").status, 201)
		}
		same(t, "twice", len(b.receive(t, "twice", "numofmessages=32").messages(t)), 2)
		same(t, "later", len(b.receive(t, "later", "").messages(t)), 0)
		time.Sleep(time.Minute)
		m := b.receiveOne(t, "later")
		time.Sleep(30*time.Second - 1)
		same(t, "while it is hidden", len(b.receive(t, "later", "").messages(t)), 0)
		time.Sleep(time.Nanosecond)
		again := b.receiveOne(t, "later")
		same(t, "dequeue count", again.DequeueCount, 2)
		check(t, "delete with the old receipt", b.deleteMessage(t, "later", m), 400, "PopReceiptMismatch")
		check(t, "delete", b.deleteMessage(t, "later", again), 204, "")
		same(t, "counts", e.Counts(), emulator.Counts{Tables: 1, QueuePut: 2, QueueGet: 5, QueueMessages: 4, QueueDelete: 2, QueueOther: 2})
		same(t, "fired", e.FaultCounts(), map[string]int{"duplicate": 1, "delay": 1})
	})
}

// TestExpiredLeases: an expired lease blocks no other request, and its holder can renew the lease until the blob has changed.
func TestExpiredLeases(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, b := inProcess(t, "")
		container := b.newContainer(t)
		id, duration := []string{"x-ms-lease-id", leaseA}, []string{"x-ms-lease-duration", "15", "x-ms-proposed-lease-id", leaseA}
		for _, c := range []struct {
			what, method, query string
			header              []string
			status              int
			code, state         string
		}{
			{"put with the expired lease", "PUT", "", append(id, "x-ms-blob-type", "BlockBlob"), 412, "LeaseLost", "expired"},
			{"read with the expired lease", "GET", "", id, 412, "LeaseLost", "expired"},
			{"set metadata with the expired lease", "PUT", "comp=metadata", id, 412, "LeaseLost", "expired"},
			{"delete with the expired lease", "DELETE", "", id, 412, "LeaseLost", "expired"},
			{"set metadata", "PUT", "comp=metadata", nil, 200, "", "available"},
			{"put", "PUT", "", []string{"x-ms-blob-type", "BlockBlob"}, 201, "", "available"},
			{"renew", "PUT", "comp=lease", append(id, "x-ms-lease-action", "renew"), 200, "", "leased"},
			{"renew another", "PUT", "comp=lease", []string{"x-ms-lease-id", leaseB, "x-ms-lease-action", "renew"}, 409, "LeaseIdMismatchWithLeaseOperation", "expired"},
			{"release", "PUT", "comp=lease", append(id, "x-ms-lease-action", "release"), 200, "", "available"},
			{"acquire", "PUT", "comp=lease", append(duration, "x-ms-lease-action", "acquire"), 201, "", "leased"},
			{"break", "PUT", "comp=lease", []string{"x-ms-lease-action", "break"}, 202, "", "broken"},
			{"delete", "DELETE", "", nil, 202, "", ""},
		} {
			check(t, "put", b.putBlob(t, container, "b", "x", nil), 201, "")
			check(t, "acquire", b.lease(t, container+"/b", "acquire", duration...), 201, "")
			time.Sleep(15 * time.Second)
			check(t, c.what, b.blobCall(t, c.method, container+"/b", c.query, c.header...), c.status, c.code)
			same(t, c.what, b.blobCall(t, "HEAD", container+"/b", "").header.Get("x-ms-lease-state"), c.state)
			time.Sleep(15 * time.Second)
		}
	})
}

// If the clock does not advance, messages have the order in which they were put. An expired message is gone even for its receiver.
func TestMessageOrderAtOneTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, b := inProcess(t, "duplicate p=1 queue=twice")
		queue := b.newQueue(t)
		texts := func(messages []message) (all string) {
			for _, m := range messages {
				all += m.MessageText + " "
			}
			return all
		}
		b.put(t, queue, "late", "visibilitytimeout=10")
		b.put(t, queue, "short", "messagettl=20")
		b.put(t, queue, "first", "")
		b.put(t, queue, "second", "")
		same(t, "peeked", texts(b.receive(t, queue, "peekonly=true&numofmessages=32").messages(t)), "short first second ")
		short := b.receiveOne(t, queue)
		time.Sleep(20*time.Second - 1)
		same(t, "when the late message is visible", texts(b.receive(t, queue, "numofmessages=32").messages(t)), "first second late ")
		time.Sleep(time.Nanosecond)
		same(t, "count", b.queue(t, request{method: "GET", path: "/" + queue, query: "comp=metadata"}).header.Get("X-Ms-Approximate-Messages-Count"), "3")
		check(t, "delete an expired message", b.deleteMessage(t, queue, short), 404, "MessageNotFound")

		check(t, "create", b.queue(t, request{method: "PUT", path: "/twice"}), 201, "")
		b.put(t, "twice", "x", "messagettl=5")
		first, second := b.receiveOne(t, "twice"), b.receiveOne(t, "twice")
		same(t, "the duplicate's id", first.MessageID, second.MessageID)
		check(t, "delete the duplicate", b.deleteMessage(t, "twice", second), 204, "")
		check(t, "delete it again", b.deleteMessage(t, "twice", second), 400, "PopReceiptMismatch")
		time.Sleep(5 * time.Second)
		check(t, "delete the first message after it expired", b.deleteMessage(t, "twice", first), 404, "MessageNotFound")
	})
}

func TestDeletedNamesStayBlocked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, b := inProcess(t, "deletion=40s")
		check(t, "delete", b.table(t, request{method: "DELETE", path: "/Tables('rows')"}), 204, "")
		time.Sleep(40*time.Second - 1)
		check(t, "create", b.createTable(t, "rows"), 409, "TableBeingDeleted")
		check(t, "delete again", b.table(t, request{method: "DELETE", path: "/Tables('Rows')"}), 409, "TableBeingDeleted")
		check(t, "insert", b.insert(t, "ROWS", "p", "r", ""), 409, "TableBeingDeleted")
		time.Sleep(time.Nanosecond)
		check(t, "insert later", b.insert(t, "rows", "p", "r", ""), 404, "TableNotFound")
		check(t, "create later", b.createTable(t, "rows"), 201, "")
		same(t, "fired", e.FaultCounts(), map[string]int{"deletion": 1})

		check(t, "create a queue", b.queue(t, request{method: "PUT", path: "/soon"}), 201, "")
		check(t, "delete it", b.queue(t, request{method: "DELETE", path: "/soon"}), 204, "")
		time.Sleep(40*time.Second - 1)
		check(t, "create it again during the deletion", b.queue(t, request{method: "PUT", path: "/soon"}), 409, "QueueBeingDeleted")
		check(t, "use it", b.queue(t, request{method: "GET", path: "/soon", query: "comp=metadata"}), 409, "QueueBeingDeleted")
		time.Sleep(time.Nanosecond)
		check(t, "create it after the deletion", b.queue(t, request{method: "PUT", path: "/soon"}), 201, "")

		container := request{method: "PUT", path: "/soon", query: "restype=container"}
		check(t, "create a container", b.blob(t, container), 201, "")
		container.method = "DELETE"
		check(t, "delete it", b.blob(t, container), 202, "")
		time.Sleep(40*time.Second - 1)
		container.method = "PUT"
		check(t, "create it again during the deletion", b.blob(t, container), 409, "ContainerBeingDeleted")
		time.Sleep(time.Nanosecond)
		check(t, "create it after the deletion", b.blob(t, container), 201, "")
	})
}

// In virtual time, latency and rate limits are exact.
func TestTimeIsVirtual(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, b := inProcess(t, "latency=50ms")
		start := time.Now()
		check(t, "insert", b.insert(t, "rows", "p", "r", ""), 204, "")
		same(t, "latency", time.Since(start), 50*time.Millisecond)
	})
	synctest.Test(t, func(t *testing.T) {
		e, b := inProcess(t, "partition-rate=100")
		b.fill(t, "rows", 1, 100) // uses the tokens of the first second
		same(t, "immediately after", b.insert(t, "rows", "p0", "x", "").status, 503)
		same(t, "elsewhere", b.insert(t, "rows", "other", "x", "").status, 204)
		time.Sleep(20 * time.Millisecond)
		same(t, "later", b.insert(t, "rows", "p0", "x", "").status, 204)
		same(t, "fired", e.FaultCounts(), map[string]int{"partition-rate": 1})
	})
	// Each message in the answer of a get counts.
	synctest.Test(t, func(t *testing.T) {
		e, b := inProcess(t, "")
		queue := b.newQueue(t)
		for range 20 {
			b.put(t, queue, "m", "")
		}
		proof.Must(t, e.SetFaults("partition-rate=10"))
		same(t, "20 messages", b.receive(t, queue, "numofmessages=20").status, 200)
		time.Sleep(900 * time.Millisecond)
		same(t, "after 0.9 s", b.receive(t, queue, "").status, 503)
		time.Sleep(200 * time.Millisecond)
		same(t, "after 1.1 s", b.receive(t, queue, "").status, 200)
	})
}

func TestOnRequest(t *testing.T) {
	t.Parallel()
	var events, faults []string
	e := newEmulator(t, emulator.Options{
		Faults: "busy p=1 times=1 on=tables; partition-rate=2 on=point",
		OnRequest: func(ev emulator.Event) {
			events = append(events, fmt.Sprintf("%s %s %v %d", ev.Kind, ev.Table, ev.Applied, ev.Found))
		},
		OnFault: func(r fault.Request, cause fault.Name) {
			faults = append(faults, fmt.Sprintf("%s %s %s", r.Kind, r.Table, cause))
		},
	})
	b := local(t, e)
	check(t, "create", b.createTable(t, "rows"), 503, "ServerBusy")
	check(t, "create", b.createTable(t, "rows"), 201, "")
	same(t, "events", events, []string{"tables rows false 0", "tables rows false 0", "tables rows true 0"})
	check(t, "insert", b.insert(t, "rows", "p", "r", ""), 204, "")
	events = nil
	same(t, "rows", b.all(t, "rows", ""), []string{"p/r"})
	same(t, "events of a query", events, []string{"query rows false 0", "query rows true 1"})
	same(t, "faults", faults, []string{"tables rows busy"})
	faults = nil
	for range 4 {
		b.get(t, "rows", "p", "r")
	}
	if len(faults) == 0 || faults[0] != "point rows partition-rate" {
		t.Errorf("got the faults %v, want that of the rate limit", faults)
	}
}

func TestAdministration(t *testing.T) {
	t.Parallel()
	e := newEmulator(t, emulator.Options{})
	b := backend{account: newAccount(t, serve(t, e))}
	call := func(method, path, body string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, b.tableURL+"/_emulator/"+path, strings.NewReader(body))
		proof.Must(t, err)
		resp, err := b.http.Do(req)
		proof.Must(t, err)
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, strings.TrimSpace(string(text))
	}
	steps := []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"PUT", "faults", "busy  p=1 on=tables", 200, `{"spec":"busy p=1 on=tables","fired":{}}`},
		{"PUT", "faults", "lazy p=1", 400, `fault spec: "lazy": unknown fault`},
		{"GET", "faults", "", 200, `{"spec":"busy p=1 on=tables","fired":{"busy":1}}`},
		{"DELETE", "faults", "", 200, `{"spec":"","fired":{}}`},
		{"POST", "faults", "", 405, "use GET, PUT or DELETE"},
	}
	for i, s := range steps {
		if i == 2 {
			check(t, "create", b.createTable(t, "rows"), 503, "ServerBusy")
		}
		status, text := call(s.method, s.path, s.body)
		if status != s.status || text != s.want {
			t.Errorf("%s %s: got %d %s, want %d %s", s.method, s.path, status, text, s.status, s.want)
		}
	}
	if _, text := call("GET", "counts", ""); !strings.Contains(text, `"tables":1,`) {
		t.Errorf("the counts are %s, want those of the requests", text)
	}
	if _, text := call("DELETE", "counts", ""); !strings.Contains(text, `"tables":0,`) {
		t.Errorf("the counts after the reset are %s, want zeros", text)
	}
}

func TestTransportObeysItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, b := inProcess(t, "latency=1h")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		req := b.build(t, b.tableURL, request{method: "GET", path: "/Tables"}, nil)
		b.sign(req, req.Header.Get("x-ms-date")+"\n/"+b.name+"/"+b.name+"/Tables")
		start := time.Now()
		_, err := b.http.Do(req.WithContext(ctx))
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("got error %v after %v, want the context's error after its time", err, time.Since(start))
		}
	})
}
