package storage

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
)

// The service asks callers to back off when it is busy, so an account that throttles
// slows its callers down until their own deadline. The try timeout lies above the
// service's 30 s limit. (Microsoft Learn, "Setting timeouts for Table service
// operations")
const (
	maxRetries    = 40
	retryDelay    = 250 * time.Millisecond
	maxRetryDelay = time.Minute
	// maxBusyDelay is the longest pause while the host answers others: it is over its
	// target then, and has room again in the next second. A single write that waits a
	// minute holds its whole step back, and the scan's end. Such short pauses are many.
	maxBusyDelay   = 4 * time.Second
	maxBusyRetries = 10 * maxRetries
	tryTimeout     = 40 * time.Second

	maxDialDelay  = 5 * time.Second // between two tries to reach a host that was there before
	firstPatience = 5 * time.Second // for a host that has never answered
	noticed       = 2 * time.Second // of failed tries are an outage
	silence       = 10 * time.Second
)

// DefaultPatience is how long commands wait for an account that stops answering.
const DefaultPatience = 10 * time.Minute

// Outage is a time without a good answer from a host, while requests wait for one.
type Outage struct {
	Host  string
	Since time.Time
	Cause string // how the last try failed; "no answer yet" before any has failed
}

// ErrAway is the error of a request that ended because its host gave no good answer for
// the account's patience.
var ErrAway = errors.New("no good answer")

// retries is a per-call policy. It retries a request while that may help, and records
// since when the host has given no good answer. All requests to a host share one.
type retries struct {
	host     string
	patience time.Duration // 0: until the request's own time is up

	mu      sync.Mutex
	pending int           // requests without an answer, pauses included
	since   time.Time     // of the last good answer, or when the first pending request began
	cause   string        // of the last failure since then
	good    int64         // good answers so far
	again   chan struct{} // closed by the next good answer
}

func newRetries(host string, patience time.Duration) *retries {
	return &retries{host: host, patience: patience, again: make(chan struct{})}
}

// Do implements [policy.Policy]. The SDK's own retry policy, behind it, makes one try
// with a time limit.
func (r *retries) Do(req *policy.Request) (*http.Response, error) {
	ctx := req.Raw().Context()
	o := exchangeOf(ctx).options
	heard := r.begin()
	defer r.end()
	counted := 0 // tries that failed while the host answered others; without patience, all
	outage := 0  // tries in a row that failed while it answered nobody
	for try := 1; ; try++ {
		resp, err := req.Next()
		if doubtful(resp, err) {
			o.Counter.doubtful()
		}
		switch {
		case ctx.Err() != nil:
			return resp, err
		case !mayPass(resp, err):
			r.answered(err)
			return resp, err
		case o.Once:
			return resp, err
		}
		good, again := r.failed(causeOf(resp, err))
		others := good != heard
		if outage++; others {
			outage = 0
		}
		if others || r.patience == 0 {
			counted++
		}
		heard = good
		pause, err := r.pause(resp, err, try, outage)
		if pause < 0 || counted > maxBusyRetries || counted > maxRetries && (resp == nil || !others) {
			return resp, err
		}
		if resp != nil && busy(resp.StatusCode) {
			if o.OnBusy != nil {
				pause = cmp.Or(o.OnBusy(), pause)
			}
			pause = max(pause, retryAfter(resp))
		}
		if resp != nil { // a busy host is not asked before its time
			again = nil
			runtime.Drain(resp)
		}
		if err := wait(ctx, pause, again, o.Stop); err != nil {
			return nil, err
		}
	}
}

// wait returns early if again is closed. It fails if stop is closed or ctx ends.
func wait(ctx context.Context, pause time.Duration, again, stop <-chan struct{}) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-again:
	case <-stop:
		return context.Canceled
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

func (r *retries) begin() (good int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending++; r.pending == 1 {
		r.since, r.cause = time.Now(), ""
	}
	return r.good
}

func (r *retries) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending--
}

// answered notes a try that is not made again: an answer, if err is nil.
func (r *retries) answered(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		return
	}
	r.good++
	r.since = time.Now()
	if r.cause != "" {
		r.cause = ""
		close(r.again)
		r.again = make(chan struct{})
	}
}

// failed notes a try that failed. It returns the number of good answers so far, and a
// channel that the next one closes.
func (r *retries) failed(cause string) (good int64, again <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cause = cause
	if r.patience == 0 {
		return r.good, nil
	}
	return r.good, r.again
}

// outage returns since when and why the host gives no good answer. ok is false if it
// answers, or if no request waits for it.
func (r *retries) outage() (o Outage, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o = Outage{Host: r.host, Since: r.since, Cause: r.cause}
	if o.Cause == "" {
		o.Cause = "no answer yet"
	}
	age := time.Since(r.since)
	return o, r.pending > 0 && (r.cause != "" && age >= noticed || age >= silence)
}

// pause returns how long to wait after a try that failed with resp or err. Below 0, there
// is no further try, and the error is the request's. outage is the number of tries in a
// row after which the host had answered nobody: 0 while it is only over its target.
func (r *retries) pause(resp *http.Response, err error, try, outage int) (time.Duration, error) {
	pause := retryAfter(resp)
	if pause <= 0 {
		longest := maxRetryDelay
		if err == nil {
			longest = max(maxBusyDelay, grown(outage))
		}
		pause = backoff(try, longest)
	}
	if r.patience == 0 {
		if pause > maxRetryDelay || noSuchHost(err) {
			return -1, err
		}
		return pause, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	limit := r.patience
	if err != nil {
		pause = min(pause, maxDialDelay)
		if r.good == 0 {
			limit = min(limit, firstPatience)
		}
		if r.good == 0 && unreachable(err) {
			return -1, err
		}
	}
	age := time.Since(r.since)
	if age >= limit {
		return -1, fmt.Errorf("%w from %s for %v: %s", ErrAway, r.host, age.Round(time.Second), r.cause)
	}
	return min(pause, limit-age), err
}

// backoff grows with the number of tries made up to the longest, and varies.
func backoff(try int, longest time.Duration) time.Duration {
	return min(time.Duration(float64(min(grown(try), longest))*(rand.Float64()/2+0.8)), maxRetryDelay)
}

// grown is the pause after so many tries, before it varies.
func grown(tries int) time.Duration {
	return min(time.Duration(int(1)<<min(tries, 20)-1)*retryDelay, maxRetryDelay)
}

// retryAfter returns an answer's Retry-After, 0 if it has none.
func retryAfter(resp *http.Response) time.Duration {
	if resp == nil {
		return 0
	}
	text := resp.Header.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return time.Until(at)
	}
	return 0
}

// mayPass reports whether the same try may succeed later: the service was busy or timed
// out, or the connection broke or could not be made.
func mayPass(resp *http.Response, err error) bool {
	if err != nil {
		var never interface{ NonRetriable() }
		return !errors.As(err, &never) && !errors.Is(err, context.Canceled)
	}
	switch resp.StatusCode {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// doubtful reports whether the service may have carried out a failed try.
func doubtful(resp *http.Response, err error) bool {
	if err != nil {
		return !dialing(err)
	}
	switch resp.StatusCode {
	case http.StatusRequestTimeout, http.StatusInternalServerError, http.StatusBadGateway, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// dialing reports whether a request failed before it was sent.
func dialing(err error) bool {
	var op *net.OpError
	var dns *net.DNSError
	return errors.As(err, &op) && op.Op == "dial" || errors.As(err, &dns) || errors.Is(err, syscall.ECONNREFUSED)
}

func noSuchHost(err error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns) && dns.IsNotFound
}

// unreachable reports whether an error suggests that the address is wrong. A host that
// has answered before may be away for a while; for any other host, the connection is wrong.
func unreachable(err error) bool {
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var passing interface{ Timeout() bool }
	return dialing(err) && !(errors.As(err, &passing) && passing.Timeout()) || errors.As(err, &certificate) || errors.As(err, &record)
}

// causeOf describes a failed try in a few words, without the URL, which may hold a
// secret.
func causeOf(resp *http.Response, err error) string {
	var op *net.OpError
	switch {
	case err == nil:
		return fmt.Sprintf("it answers %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case noSuchHost(err):
		return "no such host"
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("no answer within %v", tryTimeout)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &op) && op.Op != "dial":
		return "connection broken"
	}
	return withoutURL(err).Error()
}
