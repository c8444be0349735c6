package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tablesweep/internal/emulator"
	"tablesweep/internal/proof"
	"tablesweep/internal/proof/emulatortest"
	"tablesweep/internal/proof/outagetest"
	"tablesweep/internal/proof/testsize"
	"tablesweep/internal/storage"
)

var damageFor = flag.Duration("damage", -1, "damage all answers of every command for so long, or 5 % of them with 0s; by default, 5 % of a copy's")

// damaged is a proxy ahead of an account that damages answers.
type damaged struct {
	away *outagetest.Proxy // ahead of it, for what happens to connections
	mu   sync.Mutex        // guards the fields below
	do   func(*exchanged)  // nil while nothing is damaged
	done int
	rnd  *rand.Rand
	p    float64
	over chan struct{}     // closed when the damage is over
	had  map[string]string // connections, with the kind of request that had the last good answer there
	kept map[string]bool   // kinds of requests whose good answers the client has read
}

// exchanged is a request whose answer is damaged.
type exchanged struct {
	conn    *net.TCPConn
	request *http.Request // its query may be changed before it is sent
	body    []byte
	send    func() (head, body []byte) // sends the request, and returns the answer as it is on the wire
	some    bool                       // drawn
	proved  bool                       // the client has read a good answer to a request of its kind
	over    chan struct{}
}

func (e *exchanged) write(parts ...[]byte) {
	for _, p := range parts {
		_, _ = e.conn.Write(p)
	}
}

// answer writes an answer of somebody else's, to a request that was carried out or not.
func (e *exchanged) answer(status int, header, body string) {
	if e.some {
		e.send()
	}
	e.write(fmt.Appendf(nil, "HTTP/1.1 %d %s\r\n%sContent-Length: %d\r\n\r\n%s", status, http.StatusText(status), header, len(body), body))
}

func (e *exchanged) reset() { _ = e.conn.SetLinger(0) }

// half writes a head that announces a whole body, and the first half of that.
func (e *exchanged) half(head, body []byte) { e.write(head, body[:len(body)/2]) }

const (
	html   = "Content-Type: text/html\r\n"
	marked = "X-Ms-Version: 2019-02-02\r\nContent-Type: application/json\r\n"
	busy   = `{"odata.error":{"code":"ServerBusy","message":{"lang":"en-US","value":"The server is busy."}}}`
	absent = `{"odata.error":{"code":"ResourceNotFound","message":{"lang":"en-US","value":"The specified resource does not exist."}}}`
)

// pages are a proxy's, of a status.
func pages(status int) func(*exchanged) {
	return func(e *exchanged) {
		e.answer(status, html+"Location: /signin\r\n", "<html><body>Sign in.</body></html>")
	}
}

// halves announce a refusal of which only half comes.
func halves(status int, body string) func(*exchanged) {
	return func(e *exchanged) {
		e.half(fmt.Appendf(nil, "HTTP/1.1 %d %s\r\n%sContent-Length: %d\r\n\r\n", status, http.StatusText(status), marked, len(body)), []byte(body))
	}
}

var contentLength = regexp.MustCompile(`(?m)^Content-Length: \d+`)

// damages are what can happen to a request or its answer. Connections are closed behind it.
var damages = map[string]func(*exchanged){
	"refuse":             func(e *exchanged) { e.reset() },
	"hang":               func(e *exchanged) { _, _ = io.Copy(io.Discard, e.conn) },
	"drop":               func(*exchanged) {},
	"reset":              func(e *exchanged) { e.reset() },
	"done, not answered": func(e *exchanged) { e.send(); e.reset() },
	"half a head":        func(e *exchanged) { head, _ := e.send(); e.write(head[:len(head)/2]) },
	"half a body":        func(e *exchanged) { e.half(e.send()) },
	"half a 404":         halves(404, absent),
	"half a 503":         halves(503, busy),
	"too long a length": func(e *exchanged) {
		head, body := e.send()
		e.write(contentLength.ReplaceAll(head, []byte("Content-Length: 99999")), body)
	},
	"answers twice": func(e *exchanged) {
		head, body := e.send()
		e.write(head, body, head, body)
		time.Sleep(20 * time.Millisecond)
	},
	"html 200":         pages(200),
	"html 302":         pages(302),
	"html 400":         pages(400),
	"html 403":         pages(403),
	"html 404":         pages(404),
	"html 503":         pages(503),
	"empty 200":        func(e *exchanged) { e.answer(200, "", "") },
	"marked empty 200": func(e *exchanged) { e.answer(200, marked, "") },
	"{}":               func(e *exchanged) { e.answer(200, "Content-Type: application/json\r\n", "{}") },
	"marked {}":        func(e *exchanged) { e.answer(200, marked, "{}") },
	"half, as if whole": func(e *exchanged) {
		head, body := e.send()
		body = body[:len(body)/2]
		e.write(contentLength.ReplaceAll(head, fmt.Appendf(nil, "Content-Length: %d", len(body))), body)
	},
	"a byte a second":       (*exchanged).trickle,
	"rows twice":            rows(func(rows []json.RawMessage) []json.RawMessage { return append(rows, rows[len(rows)-1]) }),
	"rows in another order": rows(func(rows []json.RawMessage) []json.RawMessage { slices.Reverse(rows); return rows }),
	"rows elsewhere":        (*exchanged).elsewhere,
	"no id":                 (*exchanged).withoutID,
	"no ETag":               (*exchanged).withoutETag,
	"a storm of ServerBusy": func(e *exchanged) { e.some = false; e.answer(503, marked, busy) },
}

// forward sends the request and answers it as the service does, but for what change makes of the rows of a page.
func (e *exchanged) forward(change func(rows []json.RawMessage) []json.RawMessage) {
	head, body := e.send()
	var page struct {
		Value []json.RawMessage `json:"value"`
	}
	if change != nil && e.asksForRows() && json.Unmarshal(body, &page) == nil && len(page.Value) > 1 {
		page.Value = change(page.Value)
		body, _ = json.Marshal(page)
		head = contentLength.ReplaceAll(head, fmt.Appendf(nil, "Content-Length: %d", len(body)))
	}
	e.write(head, body)
}

func (e *exchanged) asksForRows() bool {
	return e.request.Method == http.MethodGet && strings.HasSuffix(e.request.URL.Path, "()")
}

// rows changes the rows of pages.
func rows(change func(rows []json.RawMessage) []json.RawMessage) func(*exchanged) {
	return func(e *exchanged) { e.forward(change) }
}

// elsewhere answers a query with the first page of its table.
func (e *exchanged) elsewhere() {
	if q := e.request.URL.Query(); e.asksForRows() {
		q.Del("$filter")
		q.Del("NextPartitionKey")
		q.Del("NextRowKey")
		e.request.URL.RawQuery = q.Encode()
	}
	e.forward(nil)
}

// madeUp answers a request about rows as the service could: there are none, or they were written. Half of the requests
// are not carried out. header goes into the answer's head, and rowHeader into the parts about rows. Other requests are answered by the service.
func (e *exchanged) madeUp(header, rowHeader string) {
	service := "X-Ms-Version: 2019-02-02\r\n" + header
	written := "HTTP/1.1 204 No Content\r\n" + rowHeader
	switch r := e.request; {
	case e.asksForRows():
		e.answer(200, service+"Content-Type: application/json\r\n", `{"value":[]}`)
	case strings.HasSuffix(r.URL.Path, "/$batch"):
		part := "--c\r\nContent-Type: application/http\r\n\r\n" + written + "\r\n\r\n"
		e.answer(202, service+"Content-Type: multipart/mixed; boundary=b\r\n", "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n"+
			strings.Repeat(part, bytes.Count(e.body, []byte("Content-Type: application/http")))+"--c--\r\n--b--\r\n")
	case strings.HasSuffix(r.URL.Path, ")") || r.Method == http.MethodPost && r.Header.Get("Prefer") != "" && !strings.HasSuffix(r.URL.Path, "/Tables"):
		if e.some {
			e.send()
		}
		e.write([]byte(written + service + "\r\n"))
	default:
		e.forward(nil)
	}
}

// withoutID is an answer that could be another request's. The first one cannot be told from that of a service that never says.
func (e *exchanged) withoutID() {
	if !e.proved {
		e.forward(nil)
		return
	}
	e.madeUp("", "ETag: W/1\r\n")
}

// withoutETag says that rows were written, and has no ETags. Those that were deleted have none.
func (e *exchanged) withoutETag() {
	if e.request.Method == http.MethodGet || e.request.Method == http.MethodDelete || bytes.Contains(e.body, []byte("\nDELETE ")) {
		e.forward(nil)
		return
	}
	e.madeUp("X-Ms-Client-Request-Id: "+e.request.Header.Get("X-Ms-Client-Request-Id")+"\r\n", "")
}

func (e *exchanged) trickle() {
	head, body := e.send()
	text := append(head, body...)
	for i := range text {
		select {
		case <-time.After(time.Second):
			if _, err := e.conn.Write(text[i : i+1]); err != nil {
				return
			}
		case <-e.over:
			e.write(text[i:])
			return
		}
	}
}

// newDamaged returns a proxy, and the connection string by way of it.
func newDamaged(t *testing.T, connection string) (*damaged, string) {
	d := &damaged{rnd: rand.New(rand.NewPCG(1, 2)), had: map[string]string{}, kept: map[string]bool{}}
	// Its two endpoints differ by their path: each service has a server of its own.
	for _, name := range []string{"TableEndpoint", "QueueEndpoint"} {
		found := regexp.MustCompile(name + `=http://([^/;]+)`).FindStringSubmatch(connection)
		next := found[1]
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { d.serve(w, r, next) }))
		t.Cleanup(s.Close)
		connection = strings.Replace(connection, found[0], name+"="+s.URL, 1)
	}
	d.away = outagetest.New(t, connection)
	return d, d.away.Connection
}

func (d *damaged) serve(w http.ResponseWriter, r *http.Request, next string) {
	d.mu.Lock()
	do, over := d.do, d.over
	if d.rnd.Float64() >= d.p {
		do = nil
	}
	if do != nil {
		d.done++
	}
	some := d.rnd.IntN(2) == 0
	kind := fmt.Sprint(next, strings.HasSuffix(r.URL.Path, "/$batch"))
	if read, ok := d.had[r.RemoteAddr]; ok { // or else the connection would not be used again
		d.kept[read] = true
	}
	proved := d.kept[kind]
	d.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	send := func() (*http.Response, []byte) {
		out, _ := http.NewRequest(r.Method, "http://"+next+r.URL.RequestURI(), bytes.NewReader(body))
		out.Header = r.Header
		resp, err := http.DefaultTransport.RoundTrip(out)
		if err != nil {
			return &http.Response{StatusCode: 502, Header: http.Header{}}, nil
		}
		defer resp.Body.Close()
		answer, _ := io.ReadAll(resp.Body)
		return resp, answer
	}
	if do == nil {
		resp, answer := send()
		if resp.StatusCode < 300 {
			d.mu.Lock()
			d.had[r.RemoteAddr] = kind
			d.mu.Unlock()
		}
		for name, values := range resp.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(resp.StatusCode)
		_, _ = w.Write(answer)
		return
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	do(&exchanged{conn: conn.(*net.TCPConn), request: r, body: body, some: some, proved: proved, over: over, send: func() (head, body []byte) {
		resp, body := send()
		var b bytes.Buffer
		fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", resp.StatusCode, http.StatusText(resp.StatusCode))
		_ = resp.Header.Write(&b)
		b.WriteString("\r\n")
		return b.Bytes(), body
	}})
}

// damage damages a share of the answers, until the returned function is called.
func (d *damaged) damage(name string, p float64) (end func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	over := make(chan struct{})
	d.do, d.p, d.over = damages[name], p, over
	mode := map[string]outagetest.Mode{"refuse": outagetest.Refuse, "hang": outagetest.Hang, "drop": outagetest.Drop}[name]
	if p == 1 && mode != outagetest.Forward { // of all connections, those that are open included
		d.do = nil
		d.away.Set(mode)
	}
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.do = nil
		close(over)
		d.away.Set(outagetest.Forward)
	}
}

// works are commands on the tables source and same, which are equal and in two accounts, with
// what tells whether one that ended well did its work.
var works = []struct {
	args  string
	sides int // accounts that it uses
	right func(t *testing.T, rows []storage.Entity, a [2]*storage.Account, out string) bool
}{
	{"copy --from source --to copied --json --to-connection OTHER", 2, func(t *testing.T, rows []storage.Entity, a [2]*storage.Account, out string) bool {
		return has(t, a[1], "copied", len(rows)) && told(out, `"rows":%d,"written":%[1]d,"skipped":0,"failed":0,`, len(rows))
	}},
	{"copy --from source --to copied --json --to-connection OTHER --mode fail", 2, func(t *testing.T, rows []storage.Entity, a [2]*storage.Account, out string) bool {
		return has(t, a[1], "copied", len(rows)) && told(out, `"rows":%d,"written":%[1]d,"skipped":0,"failed":0,`, len(rows))
	}},
	{"verify --from source --to same --json --to-connection OTHER", 2, func(_ *testing.T, rows []storage.Entity, _ [2]*storage.Account, out string) bool {
		return told(out, `{"rows":%d,"missing":0,"extra":0,"different":0,`, len(rows))
	}},
	{"count --table source", 1, func(_ *testing.T, rows []storage.Entity, _ [2]*storage.Account, out string) bool {
		return told(out, "%d\n", len(rows))
	}},
	{"scan --table source", 1, func(_ *testing.T, rows []storage.Entity, _ [2]*storage.Account, out string) bool {
		return strings.Count(out, "\n") == len(rows) && slices.IsSorted(strings.Split(strings.TrimSpace(out), "\n"))
	}},
	{"keys --table source", 1, func(_ *testing.T, rows []storage.Entity, _ [2]*storage.Account, out string) bool {
		return strings.Count(out, "\n") == len(rows)/2
	}},
	{"enqueue --table source --queue work --message {{.PartitionKey}}{{.RowKey}} --encoding none --json", 1, func(t *testing.T, rows []storage.Entity, a [2]*storage.Account, out string) bool {
		q, err := a[0].Queue("work")
		proof.Must(t, err)
		seen, all := map[string]bool{}, 0
		for {
			got, err := q.Get(t.Context(), storage.MaxGetMessages, time.Hour)
			proof.Must(t, err)
			if len(got) == 0 {
				break
			}
			for _, m := range got {
				seen[m.Text] = true
				all++
			}
		}
		var r jobResult
		return json.Unmarshal([]byte(out), &r) == nil && r.Failed == 0 && len(seen) == len(rows) && int64(all-len(rows)) <= r.Doubts
	}},
	{"delete --table source --yes --json", 1, func(t *testing.T, rows []storage.Entity, a [2]*storage.Account, out string) bool {
		p, err := a[0].Table("source").Query(t.Context(), storage.Query{})
		return err == nil && len(p.Entities) == 0 && told(out, `"rows":%d,"written":%[1]d,"skipped":0,"failed":0,`, len(rows))
	}},
	{"tables list", 1, func(_ *testing.T, _ []storage.Entity, _ [2]*storage.Account, out string) bool {
		return out == "source\n"
	}},
	{"tables create new", 1, func(t *testing.T, _ []storage.Entity, a [2]*storage.Account, _ string) bool {
		return has(t, a[0], "new", 0)
	}},
	{"log append orders {\"n\":1} {\"n\":2}", 1, func(_ *testing.T, _ []storage.Entity, _ [2]*storage.Account, out string) bool {
		return strings.Count(out, "\n") == 2
	}},
	{"catalog insert {\"eid\":\"E1\",\"at\":\"1\"} --table People --index-keys eid --row-key at", 1, func(_ *testing.T, _ []storage.Entity, _ [2]*storage.Account, out string) bool {
		return out == "1 inserted\n"
	}},
	{"catalog count --table People --index-keys eid --row-key at", 1, func(_ *testing.T, _ []storage.Entity, _ [2]*storage.Account, out string) bool {
		return out == "0\n"
	}},
}

func told(out, format string, n int) bool { return strings.Contains(out, fmt.Sprintf(format, n)) }

// has reports whether a table has so many rows.
func has(t *testing.T, a *storage.Account, table string, want int) bool {
	n := 0
	err := a.Table(table).All(t.Context(), storage.Query{}, func(p storage.Page) error { n += len(p.Entities); return nil })
	return err == nil && n == want
}

// Whatever becomes of answers, a command either does its work or says that it didn't, and takes not
// much longer than the damage lasts. No row fails by it.
func TestDamagedAnswers(t *testing.T) {
	testsize.WithoutRace(t)
	t.Parallel()
	rows := manyRows(testsize.Of(40, 80), 2)
	names := []string{"answers twice", "html 200", "marked {}", "half, as if whole", "rows elsewhere", "no ETag"}
	if testsize.Full() {
		names = names[:0]
		for name := range damages {
			if *damageFor >= 0 || name != "hang" && name != "a byte a second" { // these wait for a time-out
				names = append(names, name)
			}
		}
	}
	for w, work := range works {
		if *damageFor < 0 && !strings.HasPrefix(work.args, "copy") {
			continue
		}
		for side := range work.sides {
			for i, name := range names {
				if !testsize.Full() && (w+side+i)%2 > 0 {
					continue
				}
				t.Run(fmt.Sprintf("%s/%d/%s", work.args, side, name), func(t *testing.T) {
					t.Parallel()
					var a [2]*storage.Account
					var ems [2]*emulator.Emulator
					env := append(os.Environ(), "GORACE=atexit_sleep_ms=0")
					var d *damaged
					for i, setting := range []string{"AzureWebJobsStorage", "OTHER"} {
						var connection string
						ems[i], a[i], connection = serveEmulator(t, emulator.Options{Latency: 5 * time.Millisecond, Faults: "short-page p=1 rows=10"})
						emulatortest.Table(t, a[i], []string{"source", "same"}[i], rows)
						if i == side {
							d, connection = newDamaged(t, connection)
						}
						env = append(env, setting+"="+connection)
					}
					damage := max(0, *damageFor)
					c := &child{Cmd: exec.Command("tablesweep", strings.Fields(work.args)...)}
					c.Env, c.Stdout, c.Stderr = env, &c.out, &c.told
					began := time.Now()
					if damage == 0 {
						defer d.damage(name, 0.05)()
					}
					ems[side].ResetCounts()
					proof.Must(t, c.Start())
					if damage > 0 {
						reads := strings.Contains(work.args, "source") // the others are done with a few requests
						for reads && ems[side].Counts().TableTransactions() < 12 && time.Since(began) < 2*time.Second {
							time.Sleep(time.Millisecond)
						}
						end := d.damage(name, 1)
						defer time.AfterFunc(damage, end).Stop()
					}
					err := c.Wait()
					took := time.Since(began)
					out := c.out.String()
					switch code := c.ProcessState.ExitCode(); {
					case err == nil && !work.right(t, rows, a, out):
						t.Errorf("exit code 0, but\n%s\n%s", out, &c.told)
					case err != nil && code != exitFailed, regexp.MustCompile(`"(failed|missing|extra|different)":[1-9]`).MatchString(out):
						t.Errorf("exit code %d\n%s\n%s", code, out, &c.told)
					case *damageFor < 0 && d.done == 0:
						t.Error("nothing was damaged")
					default:
						t.Logf("%v, %v, %d damaged", err, took.Round(10*time.Millisecond), d.done)
					}
				})
			}
		}
	}
}
