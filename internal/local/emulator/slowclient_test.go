package emulator_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"tablesweep/internal/local/emulator"
	"tablesweep/internal/proof"
)

// dial sends the head of a request without the body. It returns when the server requests the body, or immediately if there is none.
func dial(t *testing.T, a *account, r request, length int) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(a.tableURL, "http://"))
	proof.Must(t, err)
	t.Cleanup(func() { conn.Close() })
	signed := a.tableRequest(t, r)
	head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\nExpect: 100-continue\r\n", r.method, signed.URL.RequestURI(), length)
	for name := range signed.Header {
		head += name + ": " + signed.Header.Get(name) + "\r\n"
	}
	if _, err := io.WriteString(conn, head+"\r\n"); err != nil {
		t.Fatal(err)
	}
	if length == 0 {
		return conn
	}
	const proceed = "HTTP/1.1 100 Continue\r\n\r\n"
	got := make([]byte, len(proceed))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != proceed {
		t.Fatalf("the server answered %q, %v; want 100 Continue", got, err)
	}
	return conn
}

// Clients that announce a large body but send nothing cost almost no memory.
func TestAnnouncedBodiesTakeNoMemory(t *testing.T) { // not parallel, because it measures the heap
	a := newAccount(t, serve(t, newEmulator(t, emulator.Options{})))
	before := heap()
	const clients = 64
	for range clients {
		dial(t, a, a.batchRequest(nil), 4<<20)
	}
	if grown := heap() - before; grown > clients*256<<10 {
		t.Errorf("%d clients take %d KiB, which is too much", clients, grown>>10)
	}
}

// A client that stops in the middle of its body is disconnected. Other clients have as much time as the emulator itself takes.
func TestStalledBody(t *testing.T) {
	t.Parallel()
	const clientTime = 300 * time.Millisecond
	e := newEmulator(t, emulator.Options{Latency: 2 * clientTime})
	emulator.SetClientTime(e, clientTime)
	a := newAccount(t, serve(t, e))
	conn := dial(t, a, a.batchRequest(nil), 4<<20)
	if _, err := io.WriteString(conn, "--batch"); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	reader := bufio.NewReader(conn)
	got, err := http.ReadResponse(reader, nil)
	proof.Must(t, err)
	same(t, "status", got.StatusCode, 500)
	same(t, "code", got.Header.Get("x-ms-error-code"), "OperationTimedOut")
	_, _ = io.Copy(io.Discard, got.Body)
	if _, err := reader.ReadByte(); err != io.EOF {
		t.Errorf("the connection: %v, want it closed", err)
	}
	check(t, "the answer of a slow emulator", a.table(t, request{method: "POST", path: "/Tables", body: `{"TableName":"rows"}`}), 201, "")
}

// A client that does not read its answer is disconnected.
func TestUnreadAnswer(t *testing.T) {
	t.Parallel()
	e, b := inProcess(t, "")
	value := strings.Repeat("x", 30_000)
	for batch := range 4 { // 12 MB, which is more than the sockets' buffers
		var ops []batchOp
		for i := range 100 {
			ops = append(ops, batchOp{"POST", "/rows", nil, entityBody("p", fmt.Sprintf("%d-%d", batch, i), `"A":"`+value+`"`)})
		}
		check(t, "fill", b.batch(t, ops), 202, "")
	}
	const clientTime = 200 * time.Millisecond
	emulator.SetClientTime(e, clientTime)
	a := newAccount(t, serve(t, e))
	conn := dial(t, a, request{method: "GET", path: "/rows()"}, 0)
	got, err := http.ReadResponse(bufio.NewReader(conn), nil)
	proof.Must(t, err)
	time.Sleep(5 * clientTime) // the answer's body is being sent
	if n, err := io.Copy(io.Discard, got.Body); err == nil {
		t.Errorf("the client got all %d bytes, want an interrupted answer", n)
	}
}
