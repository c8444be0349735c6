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

	"tablesweep/internal/task"
)

// The service asks callers to back off when it is busy, so an account that throttles
// slows its callers down until their own deadline. The try timeout lies above the
// service's 30 s limit. (Microsoft Learn, "Setting timeouts for Table service
// operations")
const (
	maxRetries = 40
	retryDelay = 250 * time.Millisecond
	// chanceDelay is the first pause, at least, after a try that failed by chance. A longer one would cost more than
	// what is refused: a request of 20 ms that is refused one time in five would wait longer than it works.
	chanceDelay = 10 * time.Millisecond
	// maxRetryDelay is short, so that work goes on soon after an outage, and no single write holds
	// its step back for long while the host is over its target. Such pauses are many.
	maxRetryDelay  = 5 * time.Second
	maxBusyRetries = 10 * maxRetries
	tryTimeout     = 40 * time.Second // and more for a large body

	// refusedFor is how long a request is repeated whose answers are 3xx and 4xx of somebody
	// else's: a proxy may be misconfigured for a moment, but rarely passes what it forbids.
	refusedFor = 30 * time.Second

	firstPatience = 15 * time.Second // for a host that has never answered, if the connection is unproven
	noticed       = 2 * time.Second  // of failed tries are an outage
	silence       = 4 * time.Second  // of a host that is asked is unusual: it is probed
	probed        = 2 * time.Second  // without an answer to that, too, are an outage
	lately        = 30 * time.Second // for so long, a slow answer tells what is usual for the host
	quickAgain    = 100              // answers later, it is no longer slow: it was an outage's
)

// DefaultPatience is how long requests wait for an account that stops answering.
const DefaultPatience = 10 * time.Minute

// Outage is a time without a good answer from a connection, although requests ask for one.
type Outage struct {
	Connection string // its setting's name, or else its host
	Since      time.Time
	Cause      string // how the newest try failed, without its URL, and how long ago if that was a while; "no answer yet" before any has failed
	Refused    bool   // that try found no connection, or a broken one: the host is neither silent nor busy
	Waiting    int    // requests that wait for an answer now
}

// The causes of tries without a connection.
const (
	connectionRefused = "connection refused"
	noHost            = "no such host"
	connectionBroken  = "connection broken"
)

// ErrAway is the error of a request that ended because there was no good answer for the
// account's patience, or before the request's own deadline.
var ErrAway = errors.New("no good answer")

// retries is a per-call policy. It retries a request while that may help, and records
// since when the host has given no good answer. All requests to a host share one.
type retries struct {
	connection string // as in [Outage]
	patience   time.Duration
	unproven   bool
	awaits     bool // see [Options.AwaitDeletion]
	// clientSecret is what the account signs in by, if it does.
	clientSecret string
	clock        *clock // the account's
	endpoint     endpoint

	mu      sync.Mutex
	pending int           // requests without an answer, pauses included
	paused  int           // of them, those in a pause
	since   time.Time     // of the last good answer, or when the first request after it began
	cause   string        // of the last failure since then
	failure time.Time     // when that was
	good    int64         // good answers so far
	took    time.Duration // the longest that a good answer took lately
	tookAt  time.Time     // when that came
	tookAs  int64         // which good answer it was
	again   chan struct{} // closed by the next good answer

	tries     []*try // under way, in order
	watching  bool
	ask       func(context.Context) error // asks the host for something, by way of these retries; nil if there is nothing to ask
	probes    task.Group                  // whose errors say nothing
	endAsk    context.CancelFunc          // ends what it asks now; nil if it asks nothing
	closeIdle func()                      // closes the connections that no request uses; nil if there are none
}

func newRetries(connection string, o Options) *retries {
	return &retries{connection: connection, patience: cmp.Or(o.Patience, DefaultPatience), unproven: o.Unproven, awaits: o.AwaitDeletion, again: make(chan struct{})}
}

// Do implements [policy.Policy]. The SDK's own retry policy, which its clients have behind it, makes one try.
func (r *retries) Do(req *policy.Request) (*http.Response, error) {
	ctx := req.Raw().Context()
	x := exchangeOf(ctx)
	x.connection, x.endpoint, x.clientSecret = r.connection, &r.endpoint, r.clientSecret
	o := x.options
	began := time.Now()
	heard := r.begin()
	defer r.end()
	cause := noAnswerYet    // of the last failure
	counted, broken := 0, 0 // tries that failed while the host answered others; answers in a row, of those that count for MaxErrors
	var refused time.Time   // since when it has only had strange refusals
	for try := 1; ; try++ {
		if !o.Rows.use(ctx, x.rows, o.Stop) || !o.Requests.use(ctx, 1, o.Stop) {
			return nil, ended(ctx, began, cause)
		}
		if o.Ask != nil {
			if err := o.Ask(ctx); err != nil {
				return nil, &heldBack{err}
			}
		}
		sent := time.Now()
		resp, err := r.once(req, try, began)
		if doubtful(resp, err) {
			o.Counter.doubtful()
		}
		deleting := err == nil && r.awaits && x.creates && beingDeleted(codeOf(resp.Header, x.answer))
		switch {
		case err == nil && ctx.Err() != nil:
			return resp, nil
		case ctx.Err() != nil:
			return nil, ended(ctx, began, cause)
		case !mayPass(resp, err) && !deleting:
			r.answered(err, time.Since(sent))
			return resp, err
		}
		cause = cmp.Or(x.causeOf(resp, err), cause)
		good, pending, again := r.failed(cause)
		if broken++; resp == nil || !brokenBy(resp.StatusCode, codeOf(resp.Header, x.answer)) {
			broken = 0
		}
		if o.Once || broken > 0 && broken == o.MaxErrors {
			return resp, err
		}
		switch {
		case !strangeRefusal(err):
			refused = time.Time{}
		case x.plain, !refused.IsZero() && time.Since(refused) >= refusedFor:
			return resp, err
		case refused.IsZero():
			refused = time.Now()
		}
		others := good != heard
		if others {
			counted++
		}
		usual := backoff(retryDelay, try)
		if others && 2*(good-heard) >= int64(pending) { // it answers most: this try failed by chance
			usual = min(usual, backoff(max(time.Since(sent), chanceDelay), try))
		}
		heard = good
		pause, err := r.pause(resp, err, usual, began, x.hurry)
		switch {
		case pause < 0 && deleting:
			return resp, nil
		case pause < 0:
			return resp, err
		case !refused.IsZero(): // others' answers say little about this request
			if pause = min(pause, time.Until(refused.Add(refusedFor))); try > 3 {
				again = nil
			}
		case counted > maxBusyRetries || counted > maxRetries && (resp == nil || !others):
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
		}
		r.pausing(1)
		wanted := o.wait(ctx, pause, again)
		r.pausing(-1)
		if !wanted {
			return nil, ended(ctx, began, cause)
		}
	}
}

// heldBack is the error of a request that [RequestOptions.Ask] kept from being sent.
type heldBack struct{ error }

func (h *heldBack) Unwrap() error { return h.error }

// HeldBack reports whether a request has ended because [RequestOptions.Ask] kept it from being sent. An earlier try may
// have been carried out.
func HeldBack(err error) bool { return errors.As(err, new(*heldBack)) }

// pausing counts the requests that pause.
func (r *retries) pausing(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paused += n
}

// wait returns early if again is closed. It reports false if nobody wants another try.
func (o RequestOptions) wait(ctx context.Context, pause time.Duration, again <-chan struct{}) bool {
	if o.Waiting != nil {
		o.Waiting.Add(1)
		defer o.Waiting.Add(-1)
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-again:
	case <-o.Stop:
		return false
	case <-ctx.Done():
		return false
	}
	return true
}

// ended is the error of a request that its caller ends, which began at a time and last failed for
// a cause.
func ended(ctx context.Context, began time.Time, cause string) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &late{away(began, cause)}
	}
	return context.Canceled
}

// late is an error of a request whose caller's time is over. Its text has no words of Go's.
type late struct{ error }

func (l *late) Unwrap() []error { return []error{l.error, context.DeadlineExceeded} }

// away is the error of a request that has waited long enough.
func away(began time.Time, cause string) error {
	return fmt.Errorf("%w for %v: %s", ErrAway, time.Since(began).Round(time.Second), cause)
}

func (r *retries) begin() (good int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pending++; r.pending == 1 && r.cause == "" {
		r.since = time.Now()
	}
	return r.good
}

func (r *retries) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending--
}

// answered notes a try that is not made again: a good answer after the time took, if err is nil.
func (r *retries) answered(err error, took time.Duration) {
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.good++
	r.since = time.Now()
	if took >= r.took || r.since.Sub(r.tookAt) >= lately {
		r.took, r.tookAt, r.tookAs = took, r.since, r.good
	}
	if r.cause != "" {
		r.cause = ""
		close(r.again)
		r.again = make(chan struct{})
	}
}

// failed notes a try that failed. It returns the number of good answers so far, the number of
// requests that wait for one, and a channel that the next one closes.
func (r *retries) failed(cause string) (good int64, pending int, again <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if cause != noAnswerYet || r.cause == "" {
		r.cause, r.failure = cause, time.Now()
	}
	return r.good, r.pending - r.paused, r.again
}

// outage returns since when and why the host gives no good answer. ok is false if it
// answers, or was not asked since it did.
func (r *retries) outage() (o Outage, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o = Outage{Connection: r.connection, Since: r.since, Cause: r.newest(), Waiting: r.pending}
	o.Refused = r.cause == connectionRefused || r.cause == noHost || r.cause == connectionBroken
	age := time.Since(r.since)
	return o, r.cause != "" && age >= noticed || r.pending > 0 && age >= max(silence+probed, 2*r.took)
}

// slow is how long the host takes for an answer, if that is unusually long; 0 if it is not, or there is an outage.
func (r *retries) slow() time.Duration {
	if _, away := r.outage(); away {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	took := time.Duration(0)
	if time.Since(r.tookAt) < lately && r.good-r.tookAs <= quickAgain {
		took = r.took
	}
	for _, t := range r.tries {
		took = max(took, t.silent())
	}
	if took < silence {
		return 0
	}
	return took
}

// newest is the newest cause, behind how old it is if another should have come since: a narrow terminal cuts the end. The caller holds r.mu.
func (r *retries) newest() string {
	age := time.Since(r.failure)
	switch {
	case r.cause == "":
		return noAnswerYet
	case age <= maxRetryDelay+time.Second:
		return r.cause
	case len(r.tries) == 0:
		return fmt.Sprintf("%v ago, %s", age.Round(time.Second), r.cause)
	}
	return fmt.Sprintf("no answer for %v; before: %s", age.Round(time.Second), r.cause)
}

// noAnswerYet is the cause while no try has failed.
const noAnswerYet = "no answer yet"

// pause returns how long to wait after a try that failed with resp or err: usual, unless the host asks
// for another time. Below 0, there is no further try, and the error is that of the request, which began
// at a time.
func (r *retries) pause(resp *http.Response, err error, usual time.Duration, began time.Time, h hurry) (time.Duration, error) {
	pause := usual
	if asked := retryAfter(resp); asked > 0 {
		pause = asked
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	limit := r.patience
	if err != nil {
		if r.unproven && r.good == 0 && unreachable(err) {
			return -1, err
		}
		limit = r.silencePatience()
	}
	asked := began
	if began = later(r.since, began); err == nil {
		asked = began // what it answers to others counts: it is busy
	}
	switch left, patient := limit-time.Since(began), h.left(asked); {
	case patient <= 0:
		return -1, away(asked, r.cause)
	case left <= 0:
		return -1, away(began, r.cause)
	default:
		return min(pause, left, patient), err
	}
}

// silencePatience is how long a request waits for a host that gives no answer at all. The caller holds r.mu.
func (r *retries) silencePatience() time.Duration {
	if r.unproven && r.good == 0 {
		return min(r.patience, firstPatience)
	}
	return r.patience
}

// backoff grows with the number of tries made, from about first up to maxRetryDelay, and varies.
func backoff(first time.Duration, try int) time.Duration {
	longest := min(time.Duration(int(1)<<min(try, 20)-1)*min(first, maxRetryDelay), maxRetryDelay)
	return time.Duration(float64(longest) * (rand.Float64()/4 + 0.75))
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

// causeOf describes a failed try in a few words, without secrets. A try that had just begun when the patience ended says nothing: "".
func (x *exchange) causeOf(resp *http.Response, err error) string {
	var op *net.OpError
	var given noAnswer
	switch {
	case errors.As(err, &given) && given.after < time.Second:
		return ""
	case err == nil:
		return fmt.Sprintf("it answers %d %s", resp.StatusCode, cmp.Or(x.hide(codeOf(resp.Header, x.answer)), http.StatusText(resp.StatusCode)))
	case errors.Is(err, syscall.ECONNREFUSED):
		return connectionRefused
	case noSuchHost(err):
		return noHost
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &op) && op.Op != "dial":
		return connectionBroken
	}
	return x.told(err).Error()
}
