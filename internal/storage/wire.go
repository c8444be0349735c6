package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"tablesweep/internal/task/memory"
)

// exchange is one request, its options, and the service's answer.
type exchange struct {
	options    RequestOptions
	operation  operation
	connection string // the request's connection, as in [Outage]
	endpoint   *endpoint
	answer     []byte        // body of the last answer, or of the failed operation's answer
	failed     int           // index of the batch's failed operation, or -1
	part       *part         // the failed operation's answer, if the request is a transaction
	tries      int           // requests sent
	try        *try          // the current try
	sent       *http.Request // the request of the last try, with its signature
	// clientSecret is the secret with which the account signs in to Entra ID, or "". Errors hide the secret, because an
	// answer of Entra ID may contain it.
	clientSecret string
	patience     callerPatience // the caller's patience
	rows         float64        // number of rows that each try writes, or is expected to read
	plain        bool           // the batch has only one operation, which is sent as a plain request
	creates      bool           // the request makes a table, queue or container

	transaction bool // the request is a batch
	// buffer, if set, holds the bodies of good answers until release is called.
	buffer  *bytes.Buffer
	answers *bufferPool // the buffer's pool
	weight  int64       // bytes of memory for each byte of a good answer; 0 if the answer's memory is not counted
	charged int64       // bytes reserved in RequestOptions.Memory for the answer
	size    int64       // length of the request's body, in bytes
	expect  int64       // as in request
}

// newRowExchange returns the exchange for a request that reads or writes rows. The answers to this request use buffers of the given pool.
func newRowExchange(o RequestOptions, op operation, answers *bufferPool) *exchange {
	x := newExchange(o, op)
	x.buffer, x.answers = answers.get(), answers
	return x
}

func (x *exchange) release() {
	x.answers.put(x.buffer)
	x.buffer, x.answer = nil, nil
}

// request is a request for rows or blobs.
type request struct {
	method      string
	url         string      // relative to the endpoint or the container; in [exchange.do], the whole URL
	header      http.Header // may be shared, so it is never changed
	ifMatch     string      // an ETag; "" for no condition
	contentType string      // media type of body
	body        []byte      // must not change before the first try is answered
	expect      int64       // upper bound of a good answer's length in bytes; 0 for a short answer
}

// do sends a request through the pipeline. If the answer is good, do returns the answer's headers, and x.answer is the
// answer's body. The argument `what` describes the request in errors.
func (x *exchange) do(ctx context.Context, pipeline runtime.Pipeline, what string, r request) (http.Header, error) {
	raw, err := http.NewRequestWithContext(x.attach(ctx), r.method, r.url, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, withoutURL(err))
	}
	raw.Header = maps.Clone(r.header)
	if len(r.body) > 0 {
		raw.Header["Content-Type"] = []string{r.contentType}
		raw.ContentLength = int64(len(r.body))
		// Each try needs a new reader. [http.Transport] recognizes a [bytes.Reader] in a NopCloser as a body in memory. With a reader of another
		// type, the transport would send the headers in a separate packet.
		raw.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(r.body)), nil }
	}
	x.size, x.expect = raw.ContentLength, r.expect
	req, err := runtime.NewRequestFromRequest(raw)
	if err != nil {
		return nil, err
	}
	resp, err := pipeline.Do(req)
	if err == nil && resp.StatusCode >= 300 {
		err = &azcore.ResponseError{StatusCode: resp.StatusCode, ErrorCode: resp.Header.Get("X-Ms-Error-Code"), RawResponse: resp}
	}
	if err != nil {
		return nil, wrap(what, x, err)
	}
	return resp.Header, nil
}

func (x *exchange) read(resp *http.Response) (err error) {
	x.charge(-x.charged) // the answers of earlier tries no longer need memory
	if resp.StatusCode >= 400 {
		x.answer, err = runtime.Payload(resp)
		return err
	}
	if x.weight > 0 {
		if n := resp.ContentLength; n > 0 && !x.charge(n*x.weight) {
			return memory.ErrFull
		} else if n <= 0 {
			resp.Body = chargedBody{resp.Body, x}
		}
	}
	switch n := resp.ContentLength; {
	case x.buffer != nil:
	case n > 0 && n <= x.expect:
		defer resp.Body.Close()
		x.answer = make([]byte, n)
		_, err = io.ReadFull(resp.Body, x.answer)
		return err
	default:
		x.answer, err = runtime.Payload(resp)
		return err
	}
	defer resp.Body.Close()
	x.buffer.Reset()
	if n := min(resp.ContentLength, maxExpected); n > 0 {
		x.buffer.Grow(int(n) + bytes.MinRead)
	}
	if _, err := x.buffer.ReadFrom(resp.Body); err != nil {
		return err
	}
	x.answer = x.buffer.Bytes()
	return nil
}

// charge reserves the given number of bytes in RequestOptions.Memory for the answer. If too little memory is free, charge
// returns false.
func (x *exchange) charge(bytes int64) bool {
	ok := x.options.Memory.Use(bytes)
	if ok {
		x.charged += bytes
	}
	return ok
}

// chargedBody is the body of an answer of unknown length. Reading it reserves memory.
type chargedBody struct {
	io.ReadCloser
	x *exchange
}

// Read implements [io.Reader].
func (c chargedBody) Read(b []byte) (n int, err error) {
	n, err = c.ReadCloser.Read(b)
	if !c.x.charge(int64(n) * c.x.weight) {
		err = memory.ErrFull
	}
	return n, err
}

// maxExpected is the maximum number of bytes that are allocated before an answer's body arrives, even if the answer announces a
// greater length. A page has at most 4 MiB, and its JSON is rarely more than twice as long.
const maxExpected = 8 << 20

// bufferPool reuses the buffers of bodies, because thousands of requests per second would burden the garbage collector.
// Each kind of answer has its own pool, so that a small answer never uses a buffer as large as a page.
type bufferPool struct{ pool sync.Pool }

const maxPooled = 1 << 20

var pageBuffers, transactionBuffers, statusBuffers bufferPool

func (p *bufferPool) get() *bytes.Buffer {
	if b, ok := p.pool.Get().(*bytes.Buffer); ok {
		return b
	}
	return new(bytes.Buffer)
}

func (p *bufferPool) put(b *bytes.Buffer) {
	if b.Cap() <= maxPooled {
		b.Reset()
		p.pool.Put(b)
	}
}

// captureAnswer is a policy that the pipeline applies to each try. It counts the try, reads the answer to its end, and
// checks that the answer comes from the service. The answer to a failed entity group transaction has the status 202. It
// contains the failed operation's answer, and captureAnswer returns only this inner answer. So retries and errors use
// the failed operation's status and code.
type captureAnswer struct{}

func (captureAnswer) Do(req *policy.Request) (*http.Response, error) {
	x := exchangeOf(req.Raw().Context())
	x.options.Counter.countSent()
	x.tries++
	id := strconv.FormatUint(rand.Uint64(), 36) // not from crypto/rand: a simulation seeds crypto/rand, and concurrent tries would take the seeded numbers in a random order
	req.Raw().Header[clientRequestID] = []string{id}
	resp, err := req.Next()
	x.sent = req.Raw()
	if err != nil {
		return nil, repeatable(resp, err)
	}
	x.try.touch()
	resp.Body = watchedBody{resp.Body, x.try}
	if err := x.read(resp); err != nil {
		return nil, err
	}
	x.failed, x.part = -1, nil
	if err := x.operation.validateAnswer(id, x.endpoint.requires(x), resp.StatusCode, resp.Header, x.answer); err != nil {
		return nil, err
	}
	if resp.StatusCode < 400 && resp.Header.Get(clientRequestID) != "" {
		x.endpoint.echoField(x).Store(true)
	}
	switch {
	case x.part != nil:
		x.answer, x.failed = x.part.body, x.part.index
		resp.StatusCode, resp.Status = x.part.status, strconv.Itoa(x.part.status)+" "+http.StatusText(x.part.status)
		resp.Header = x.part.header
	case x.plain && aboutRow(resp.StatusCode):
		x.failed = 0
	}
	if busy(resp.StatusCode) {
		x.options.Counter.countThrottled(resp)
	}
	return resp, nil
}

// If the answer to a POST or PATCH breaks off, azcore marks the error as not repeatable. repeatable removes the
// mark, because the request can be repeated like any request without an answer.
func repeatable(resp *http.Response, err error) error {
	var marked interface {
		error
		NonRetriable()
	}
	if resp != nil && errors.As(err, &marked) {
		return errors.Unwrap(marked)
	}
	return err
}

// aboutRow reports whether a refusal with this status is about a row, and not about the caller or the request.
func aboutRow(status int) bool {
	return status >= 400 && status < 500 && status != http.StatusUnauthorized && status != http.StatusForbidden
}

// busy reports whether the status means overload. ServerBusy has the status 503, and a partition beyond its target may answer
// 500 OperationTimedOut. (Microsoft Learn, "Scalability and performance targets for Table storage")
func busy(status int) bool {
	return status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests || status == http.StatusInternalServerError
}
