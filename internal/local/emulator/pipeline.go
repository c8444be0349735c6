package emulator

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"tablesweep/internal/local/emulator/fault"
	"tablesweep/internal/local/emulator/refusal"
	"tablesweep/internal/task"
)

// pipeline handles a request to any service: it checks the signature, reads and counts the request, applies faults, carries the
// request out, and answers.
type pipeline struct {
	*Emulator
	name    string // "table", "queue" or "blob", as in the services' host names
	service service
}

// service is the part of a pipeline that differs between the services. Errors other than *refusal.Error are bugs.
type service interface {
	// parse returns the operation that a request asks for, or an error if the request is invalid. It changes nothing.
	parse(c *call) (operation, error)
	// stringToSign returns the text that is signed in the given scheme.
	stringToSign(r *http.Request, scheme string) (string, error)
	// maxBody is the maximum size of a body, in bytes.
	maxBody() int64
	// failure returns the answer to a failed request. The caller adds the header with the error code.
	failure(c *call, p *refusal.Error) response
	// headers sets those headers of an answer that depend only on the service, the call and the status.
	headers(h http.Header, c *call, status int)
}

type call struct {
	*http.Request
	Method string // the request's method, or the method that the request tunnels; see the function `method`
	query  url.Values
	body   []byte
	path   string // the URL's path, decoded, without "/ACCOUNT" at the beginning
	id     string // the answer's x-ms-request-id
}

func (p pipeline) newCall(r *http.Request) *call {
	return &call{Request: r, Method: r.Method, query: r.URL.Query(), id: fmt.Sprintf("00000000-0000-0000-0000-%012x", p.requests.Add(1))}
}

func (c *call) trace(now time.Time) string {
	return "\nRequestId:" + c.id + "\nTime:" + now.UTC().Format("2006-01-02T15:04:05.0000000Z")
}

// base returns the URL of the account, with the host that the client used.
func (e *Emulator) base(c *call) string { return "http://" + c.Host + "/" + e.account }

// operation is a parsed request.
type operation struct {
	fault.Request
	run run
}

type run func(now time.Time, plan fault.Plan) (response, error)

type response struct {
	status      int
	contentType string
	body        []byte
	header      [][2]string
	pooled      bool // body is from Emulator.buffers
	found       int  // number of rows or messages in the body
}

func (r *response) set(name, value string) {
	if r.header == nil {
		r.header = make([][2]string, 0, 4) // usually enough
	}
	r.header = append(r.header, [2]string{name, value})
}

func (p pipeline) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if isAdmin(r) && p.name == "table" {
		p.administer(w, r)
		return
	}
	c := p.newCall(r)
	defer func() { p.recycle(c.body) }() // parse and run keep no reference to the body
	op, err := p.prepare(c, w)
	if err != nil {
		p.fail(w, c, err)
		return
	}
	p.counts.request(op.Request)
	p.event(Event{Request: op.Request})
	plan := p.injector.Load().Plan(time.Now(), op.Request)
	if !task.Sleep(r.Context(), p.latency+plan.Latency) {
		return // the client has disconnected
	}
	if plan.Fail != "" && !plan.Fail.Applied() {
		p.breakDown(w, c, op, plan, response{})
		return
	}
	answer, err := op.run(p.clock(), plan)
	p.event(Event{Request: op.Request, Applied: true, Found: answer.found})
	if err != nil {
		answer = p.refused(c, err)
	}
	if plan.Fail != "" {
		p.breakDown(w, c, op, plan, answer)
	} else {
		p.write(w, c, answer)
	}
}

func (p pipeline) event(e Event) {
	if p.onRequest != nil {
		p.onRequest(e)
	}
}

// prepare checks and reads the request.
func (p pipeline) prepare(c *call, w http.ResponseWriter) (operation, error) {
	// The error is ignored, because requests that come through a Transport have no connection. Even a refused request needs
	// the deadline, because net/http reads the rest of its body.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(p.clientTime))
	if err := leftOut(c); err != nil {
		return operation{}, err
	}
	if err := p.authenticate(c.Request, p.service); err != nil {
		return operation{}, err
	}
	path, ok := strings.CutPrefix(c.URL.Path, "/"+p.account)
	if !ok || path != "" && path[0] != '/' {
		return operation{}, authenticationFailed("the URL's path does not start with the account's name")
	}
	c.path = path
	if version := c.Header.Get("x-ms-version"); version != "" {
		// Accept any version, so that newer clients work.
		if _, err := time.Parse(time.DateOnly, version); err != nil {
			return operation{}, refusal.New("InvalidHeaderValue", "The value for one of the HTTP headers is not in the correct format: x-ms-version.")
		}
	}
	if err := p.read(c, w); err != nil {
		return operation{}, err
	}
	return p.service.parse(c)
}

// leftOut refuses requests for features that the emulator lacks. It must run before the signature check, because some of these requests are signed in
// an unsupported way.
func leftOut(c *call) error {
	what := ""
	switch comp := c.query.Get("comp"); {
	case c.Method == http.MethodOptions:
		what = "CORS"
	case c.query.Has("sig"):
		what = "A shared access signature"
	case comp == "acl":
		what = "An access policy"
	case comp == "properties" && c.query.Has("restype"):
		what = "A service property"
	case comp == "stats":
		what = "A statistic"
	default:
		return nil
	}
	return notPart(what)
}

func (p pipeline) read(c *call, w http.ResponseWriter) error {
	body := http.MaxBytesReader(w, c.Body, p.service.maxBody())
	c.body = p.buffer()
	for {
		// The buffer grows with the received bytes, not with the announced length.
		c.body = slices.Grow(c.body, minRead)
		n, err := body.Read(c.body[len(c.body):cap(c.body)])
		c.body = c.body[:len(c.body)+n]
		var tooLarge *http.MaxBytesError
		switch {
		case err == nil:
		case err == io.EOF:
			// Clear the deadline. During the answer, net/http keeps reading to notice when the client disconnects, and would take
			// an expired deadline for a disconnection.
			_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
			return nil
		case errors.As(err, &tooLarge):
			return bodyTooLarge(tooLarge.Limit)
		case errors.Is(err, os.ErrDeadlineExceeded):
			return refusal.New("OperationTimedOut", "The request body did not arrive in time.")
		default:
			return refusal.New("InvalidInput", "The request body cannot be read: "+err.Error())
		}
	}
}

func bodyTooLarge(limit int64) error {
	return refusal.New("RequestBodyTooLarge", "The request body is too large and exceeds the maximum permissible limit.",
		[2]string{"MaxLimit", strconv.FormatInt(limit, 10)})
}

// minRead is the minimum free space in the buffer before a read, in bytes.
const minRead = 512

// breakDown makes a request fail as planned. If the request was carried out, the argument `answer` is its answer.
func (p pipeline) breakDown(w http.ResponseWriter, c *call, op operation, plan fault.Plan, answer response) {
	if p.onFault != nil {
		p.onFault(op.Request, plan.Cause)
	}
	switch plan.Fail {
	case fault.ResetBefore, fault.ResetAfter:
		reset(w)
	case fault.Busy:
		answer = p.failure(c, refusal.New("ServerBusy", "The server is currently unable to receive requests. Please retry your request."))
		if plan.RetryAfter > 0 {
			seconds := (plan.RetryAfter + time.Second - 1) / time.Second
			answer.set("Retry-After", strconv.Itoa(int(seconds)))
		}
		p.write(w, c, answer)
	case fault.HTML:
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<html><body>Sign in to use the network.</body></html>")
	case fault.Empty:
		p.write(w, c, response{status: http.StatusOK, contentType: "application/json"})
	case fault.Braces:
		p.write(w, c, response{status: http.StatusOK, contentType: "application/json", body: []byte("{}")})
	case fault.Half:
		if len(answer.body) == 0 {
			answer.status = http.StatusOK
		}
		answer.body = answer.body[:len(answer.body)/2]
		p.write(w, c, answer)
	default:
		p.fail(w, c, refusal.New("OperationTimedOut", "Operation could not be completed within the specified time."))
	}
}

// reset breaks the connection without an answer.
func reset(w http.ResponseWriter) {
	if local, ok := w.(*recorder); ok {
		local.reset = true
		return
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // net/http's own way to abort a connection
	}
	if tcp, ok := conn.(interface{ SetLinger(seconds int) error }); ok {
		_ = tcp.SetLinger(0) // makes Close send a reset
	}
	_ = conn.Close()
}

func (p pipeline) fail(w http.ResponseWriter, c *call, err error) { p.write(w, c, p.refused(c, err)) }

// refused makes the answer to a request that failed with err.
func (p pipeline) refused(c *call, err error) response {
	var known *refusal.Error
	if !errors.As(err, &known) {
		panic("emulator: internal error: " + err.Error())
	}
	return p.failure(c, known)
}

func (p pipeline) failure(c *call, e *refusal.Error) response {
	r := p.service.failure(c, e)
	r.set("X-Ms-Error-Code", e.Code)
	return r
}

func (p pipeline) write(w http.ResponseWriter, c *call, r response) {
	h := w.Header()
	h.Set("Date", p.clock().UTC().Format(http.TimeFormat))
	h.Set("Server", "Tablesweep-Emulator")
	h.Set("x-ms-request-id", c.id)
	if id := c.Header.Get("x-ms-client-request-id"); id != "" {
		h.Set("x-ms-client-request-id", id)
	}
	if version := c.Header.Get("x-ms-version"); version != "" {
		h.Set("x-ms-version", version)
	}
	p.service.headers(h, c, r.status)
	for _, pair := range r.header {
		if strings.HasPrefix(pair[0], metadataPrefix) {
			h[pair[0]] = []string{pair[1]} // unlike h.Set, keeps the name in lower case, as Python's client needs it
			continue
		}
		h.Set(pair[0], pair[1])
	}
	if c.Method == http.MethodHead && r.status >= http.StatusBadRequest {
		r.contentType, r.body = "", nil // otherwise the header would announce a body, and clients would report that it is incomplete
	}
	if r.contentType != "" {
		h.Set("Content-Type", r.contentType)
	}
	if r.status != http.StatusNoContent && r.status != http.StatusNotModified {
		h.Set("Content-Length", strconv.Itoa(len(r.body)))
	}
	// The client's time limit starts here, after latency and faults.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(p.clientTime))
	w.WriteHeader(r.status)
	if c.Method != http.MethodHead && r.status != http.StatusNotModified {
		_, _ = w.Write(r.body) // the client may have disconnected
	}
	if r.pooled {
		p.recycle(r.body)
	}
}
