package storage

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
)

// exchange travels in the context of an SDK call. It puts our bytes on the wire
// in place of the SDK's and keeps the service's answer as it came.
type exchange struct {
	contentType string // with body: what to send instead of the SDK's body
	body        []byte
	page        bool // the answer is a page of entities, which the caller decodes

	header http.Header // of the last answer
	answer []byte      // body of the last answer; of the failed operation, if one failed
	failed int         // index of the batch's operation that failed, -1 if none
}

type exchangeKey struct{}

func (x *exchange) in(ctx context.Context) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}

// Counter counts the requests that were sent in its context, retries included:
// what the service bills as transactions.
type Counter struct {
	// OnThrottle, if set, is called for every answer that says that the service is
	// too busy, before the request is sent again. It must not block, and may be
	// called concurrently.
	OnThrottle func()

	n, doubts atomic.Int64
}

type counterKey struct{}

// In returns a context whose requests the counter counts.
func (c *Counter) In(ctx context.Context) context.Context {
	return context.WithValue(ctx, counterKey{}, c)
}

// Requests returns the number of requests counted so far.
func (c *Counter) Requests() int64 { return c.n.Load() }

// Doubts returns the number of those whose outcome is unknown: no answer came, or one
// that the service may give although it carries the request out.
func (c *Counter) Doubts() int64 { return c.doubts.Load() }

// replaceBody is a per-call policy: it swaps the request's body before the
// request is signed and sent.
type replaceBody struct{}

func (replaceBody) Do(req *policy.Request) (*http.Response, error) {
	if x, ok := req.Raw().Context().Value(exchangeKey{}).(*exchange); ok && x.body != nil {
		if err := req.SetBody(streaming.NopCloser(bytes.NewReader(x.body)), x.contentType); err != nil {
			return nil, err
		}
	}
	return req.Next()
}

// captureAnswer is a per-retry policy: it counts the request, keeps the answer,
// and gives the SDK what it needs of it. An entity group transaction that fails
// answers 202 with the failure inside; it is unwrapped here, so that the SDK's
// retry policy and its errors see the status and code that the failed operation
// has.
type captureAnswer struct{}

func (captureAnswer) Do(req *policy.Request) (*http.Response, error) {
	ctx := req.Raw().Context()
	c, counting := ctx.Value(counterKey{}).(*Counter)
	if counting {
		c.n.Add(1)
	}
	resp, err := req.Next()
	x, ok := ctx.Value(exchangeKey{}).(*exchange)
	if err != nil || !ok {
		return resp, err
	}
	answer, err := runtime.Payload(resp)
	if err != nil {
		return nil, err
	}
	x.header, x.answer, x.failed = resp.Header, answer, -1
	switch {
	case resp.StatusCode == http.StatusOK && x.page:
		err = giveSDK(resp, []byte(`{"value":[]}`)) // spares it decoding the page too
	case resp.StatusCode == http.StatusAccepted:
		if part := failedPart(resp.Header.Get("Content-Type"), answer); part != nil {
			x.answer, x.failed = part.body, part.index
			resp.StatusCode, resp.Status = part.status, strconv.Itoa(part.status)+" "+http.StatusText(part.status)
			resp.Header = part.header
			err = giveSDK(resp, part.body)
		}
	}
	if err != nil {
		return nil, err
	}
	if counting && c.OnThrottle != nil && busy(resp.StatusCode) {
		c.OnThrottle()
	}
	return resp, nil
}

// giveSDK puts a body in the place of the answer's. It marks it as complete, as
// runtime.Payload did with the one before: the SDK keeps the request and its body
// until the time-out otherwise, since it does not close every answer.
func giveSDK(resp *http.Response, body []byte) error {
	resp.Body = io.NopCloser(bytes.NewReader(body))
	_, err := runtime.Payload(resp)
	return err
}

// busy reports whether the status asks for less load: ServerBusy is 503, and a
// partition beyond its target may answer 500 OperationTimedOut. (Microsoft Learn,
// "Scalability and performance targets for Table storage")
func busy(status int) bool {
	return status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests || status == http.StatusInternalServerError
}

// part is the failed operation's answer within a transaction's answer.
type part struct {
	index  int // of the operation, -1 if the service does not tell
	status int
	header http.Header
	body   []byte
}

// failedPart returns the answer of the operation that made the transaction fail,
// nil if none did.
func failedPart(contentType string, answer []byte) *part {
	if !bytes.Contains(answer, []byte("HTTP/1.1 4")) && !bytes.Contains(answer, []byte("HTTP/1.1 5")) {
		return nil
	}
	outer, err := firstPart(contentType, answer)
	if err != nil {
		return nil
	}
	body, err := io.ReadAll(outer)
	if err != nil {
		return nil
	}
	_, params, err := mime.ParseMediaType(outer.Header.Get("Content-Type"))
	if err != nil {
		return nil
	}
	changes := multipart.NewReader(bytes.NewReader(body), params["boundary"])
	for {
		p, err := changes.NextRawPart()
		if err != nil {
			return nil
		}
		resp, err := http.ReadResponse(bufio.NewReader(p), nil)
		if err != nil || resp.StatusCode < 400 {
			continue
		}
		// The part need not state its length; it ends where the part does.
		b, _ := io.ReadAll(resp.Body)
		return &part{index: failedIndex(b), status: resp.StatusCode, header: resp.Header, body: b}
	}
}

func firstPart(contentType string, body []byte) (*multipart.Part, error) {
	_, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, err
	}
	return multipart.NewReader(bytes.NewReader(body), params["boundary"]).NextRawPart()
}

// failedIndex reads the operation's index, which the service puts before a colon
// at the start of the error's message.
func failedIndex(body []byte) int {
	_, message := serviceError(body)
	number, _, ok := strings.Cut(message, ":")
	if !ok {
		return -1
	}
	index, err := strconv.Atoi(strings.TrimSpace(number))
	if err != nil {
		return -1
	}
	return index
}
