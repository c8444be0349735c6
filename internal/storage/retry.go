package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// Times of tries and pauses. The pauses let a busy service recover. tryTimeout is longer than the service's limit of
// 30 s. (Microsoft Learn, "Setting timeouts for Table service operations")
const (
	retryDelay = 250 * time.Millisecond
	// After a try that failed by chance, the first pause is about as long as the try, but at least chanceDelay. Longer pauses
	// would cost too much time. For example, if requests take 20 ms and one in five is followed by a pause of 100 ms, the pauses
	// together take as much time as the requests.
	chanceDelay = 10 * time.Millisecond
	// maxRetryDelay is short. So work resumes soon after an outage, and a single throttled write does not delay its step
	// for long.
	maxRetryDelay = 5 * time.Second
	tryTimeout    = 40 * time.Second // maximum time of a try, plus sendTime for each byte of the request and of the expected answer

	firstPatience = 15 * time.Second // for a host that has never answered; see [Options.Unproven]
	noticed       = 2 * time.Second  // if all tries have failed for this time, there is an outage
	silence       = 20 * time.Second // if a request is waiting and no good answer has come for this time, there is an outage, even if no try has failed; sending a large body takes less time than this
)

// DefaultPatience is how long requests wait for an account that stops answering.
const DefaultPatience = 10 * time.Minute

// Outage is a time in which a connection's requests do not get good answers.
type Outage struct {
	Connection string // the name of its setting, or its host if it has no setting
	Since      time.Time
	Cause      string // cause of the newest failure, without a URL; contains the failure's age if the failure is old; "no answer yet" before the first failure
	Refused    bool   // the newest failed try could not connect, or its connection broke; so the host is neither silent nor busy
	Waiting    int    // requests that wait for an answer now
}

// ErrAway is the error of a request that did not get a good answer within the account's patience or before its own deadline. An
// [AwayError] wraps it.
var ErrAway = errors.New("no good answer")

// AwayError is an [ErrAway] with the details of the outage.
type AwayError struct {
	connection string        // as in [Outage]
	cause      string        // how the newest try failed
	since      time.Time     // time of the host's last good answer, or of the first request to the host
	waited     time.Duration // how long the request has waited
}

func (e *AwayError) Error() string {
	return fmt.Sprintf("%v for %v: %s", ErrAway, e.waited.Round(time.Second), e.cause)
}

func (e *AwayError) Unwrap() error { return ErrAway }

// Sentence states which connection has not answered, for how long, and the reason if known.
func (e *AwayError) Sentence() string {
	which := "the storage of " + e.connection
	if e.connection == HostConnection {
		which = "the app's own storage (" + HostConnection + ")"
	}
	lasts := max(time.Since(e.since), e.waited).Round(time.Second).Seconds()
	if status, answers := strings.CutPrefix(e.cause, itAnswers); answers {
		return fmt.Sprintf("%s has answered only %s for %.0f s", which, status, lasts)
	}
	sentence := fmt.Sprintf("%s has not answered for %.0f s", which, lasts)
	if e.cause == noAnswerYet || strings.HasPrefix(e.cause, noAnswerWithin) {
		return sentence
	}
	return sentence + ": " + e.cause
}

// retries is a policy that the SDK calls once for each request. It retries the request while a retry may help, and records how
// long the host has not given a good answer. All requests to a host share one value of this type.
type retries struct {
	connection   string // as in [Outage]
	patience     time.Duration
	unproven     bool
	awaits       bool // see [Options.AwaitDeletion]
	clientSecret string
	clock        *clock // the account's clock
	endpoint     endpoint

	mu      sync.Mutex
	pending int           // requests that have no answer yet, including those in a pause
	paused  int           // pending requests that are in a pause
	since   time.Time     // time of the last good answer, or of the first request after an idle time
	cause   string        // cause of the last failure since the last good answer
	failure time.Time     // time of the last failure
	good    int64         // good answers so far
	wake    chan struct{} // the next good answer closes this channel

	tries     []*try // current tries, in the order in which they began
	watching  bool
	closeIdle func() // closes the connections that no request uses; may be nil
}

func newRetries(connection string, o Options) *retries {
	return &retries{connection: connection, patience: cmp.Or(o.Patience, DefaultPatience), unproven: o.Unproven, awaits: o.AwaitDeletion, wake: make(chan struct{})}
}

// Do implements [policy.Policy]. This policy repeats failed requests. The SDK's own retry policy follows in the pipeline. The SDK's policy makes a
// single try, or does not run (see [newPipeline]).
func (r *retries) Do(req *policy.Request) (*http.Response, error) {
	ctx := req.Raw().Context()
	x := exchangeOf(ctx)
	x.connection, x.endpoint, x.clientSecret = r.connection, &r.endpoint, r.clientSecret
	o := x.options
	c := course{began: time.Now(), good: r.begin(), cause: noAnswerYet}
	defer r.end()
	for try := 1; ; try++ {
		if !o.Rows.acquire(ctx, x.rows, o.Stop) || !o.Requests.acquire(ctx, 1, o.Stop) {
			return nil, r.endedError(ctx, c)
		}
		if o.MayProceed != nil {
			if err := o.MayProceed(ctx); err != nil {
				return nil, &heldBack{err}
			}
		}
		sent := time.Now()
		resp, err := r.tryOnce(req, try, c.began)
		if doubtful(resp, err) {
			o.Counter.countDoubtful()
		}
		if err != nil && ctx.Err() != nil {
			return nil, r.endedError(ctx, c)
		}
		is := x.outcomeOf(resp, err, r.awaits)
		if is == decided {
			r.recordEnd(err)
			return resp, err
		}
		c.record(is, x.causeOf(resp, err))
		follows := rules[is]
		chance, wake := r.recordFailure(&c)
		if o.Once || c.lost > follows.tries || follows.failure && c.times == o.MaxErrors {
			return resp, err
		}
		left, over := r.remaining(&c, err, x.patience)
		switch {
		case over != nil && is == deleting:
			return resp, nil
		case over != nil:
			return resp, over
		case follows.lasts > 0:
			if left = min(left, time.Until(c.since.Add(follows.lasts))); left <= 0 {
				return resp, err
			}
		}
		pause := backoff(retryDelay, try)
		if chance {
			pause = min(pause, backoff(max(time.Since(sent), chanceDelay), try))
		}
		pause = cmp.Or(retryAfter(resp), pause)
		if follows.slows && o.OnBusy != nil {
			pause = max(cmp.Or(o.OnBusy(), pause), retryAfter(resp))
		}
		if try > follows.woken {
			wake = nil
		}
		r.addPaused(1)
		wanted := o.wait(ctx, min(pause, left), wake)
		r.addPaused(-1)
		switch {
		case !wanted:
			return nil, r.endedError(ctx, c)
		case is == deleting && pause >= left: // no time is left for another try
			return resp, nil
		}
	}
}

// course is the history of a request's tries.
type course struct {
	began time.Time
	good  int64     // number of the host's good answers at the time of the last try
	lost  int       // tries that failed while the host answered other requests
	cause string    // cause of the last failure
	last  outcome   // outcome of the last try
	times int       // how many consecutive tries, up to the last try, had the last try's outcome
	since time.Time // when the outcome last changed
}

// record adds the outcome of a try to the history. If the cause is "", the history keeps the previous cause.
func (c *course) record(is outcome, cause string) {
	if is != c.last {
		c.last, c.times, c.since = is, 0, time.Now()
	}
	c.times++
	c.cause = cmp.Or(cause, c.cause)
}

// heldBack is the error of a request that ended because [RequestOptions.MayProceed] prevented a try.
type heldBack struct{ error }

func (h *heldBack) Unwrap() error { return h.error }

// HeldBack reports whether a request ended because [RequestOptions.MayProceed] prevented a try. The service may have carried out an
// earlier try.
func HeldBack(err error) bool { return errors.As(err, new(*heldBack)) }

func (r *retries) addPaused(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paused += n
}

// wait waits until the pause ends or the channel `wake` is closed. It returns false if the request must end without a further try.
func (o RequestOptions) wait(ctx context.Context, pause time.Duration, wake <-chan struct{}) bool {
	if o.Waiting != nil {
		o.Waiting.Add(1)
		defer o.Waiting.Add(-1)
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-wake:
	case <-o.Stop:
		return false
	case <-ctx.Done():
		return false
	}
	return true
}

// endedError returns the error of a request that its caller has ended.
func (r *retries) endedError(ctx context.Context, c course) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &pastDeadline{r.awayError(c.began, c.cause)}
	}
	return context.Canceled
}

// pastDeadline is the error of a request whose caller's deadline has passed. Its text replaces the text of
// [context.DeadlineExceeded].
type pastDeadline struct{ error }

func (l *pastDeadline) Unwrap() []error { return []error{l.error, context.DeadlineExceeded} }

// awayError returns the error of a request that got no good answer in time. The caller holds r.mu.
func (r *retries) awayError(began time.Time, cause string) error {
	return &AwayError{r.connection, cause, r.since, time.Since(began)}
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

// recordEnd records a try that is not repeated. If err is nil, the try had a good answer.
func (r *retries) recordEnd(err error) {
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.good++
	r.since = time.Now()
	if r.cause != "" {
		r.cause = ""
		close(r.wake)
		r.wake = make(chan struct{})
	}
}

// recordFailure records a failed try of a request. If the host has meanwhile answered most other requests, the failure was
// probably a coincidence, and the result `chance` is true. The result `wake` is a channel that is closed at the host's
// next good answer.
func (r *retries) recordFailure(c *course) (chance bool, wake <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.cause != noAnswerYet || r.cause == "" {
		r.cause, r.failure = c.cause, time.Now()
	}
	if others := r.good - c.good; others > 0 {
		c.lost++
		c.good = r.good
		chance = 2*others >= int64(r.pending-r.paused)
	}
	return chance, r.wake
}

// outage returns the current outage. ok is false if the host answers, or if no request was made since its last good
// answer.
func (r *retries) outage() (o Outage, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o = Outage{Connection: r.connection, Since: r.since, Cause: r.newestCause(), Waiting: r.pending}
	o.Refused = r.cause == connectionRefused || r.cause == noHost || r.cause == connectionBroken
	age := time.Since(r.since)
	return o, r.cause != "" && age >= noticed || r.pending > 0 && age >= silence
}

// newestCause returns the cause of the newest failure. If the failure is old, the result begins with the failure's age, because a
// narrow terminal cuts off the end of a line. The caller holds r.mu.
func (r *retries) newestCause() string {
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

// remaining returns how much longer a request may wait for a good answer. The argument err is the error of the last try, or nil if that try got a bad
// answer. If no time remains, remaining returns the error with which the request fails.
func (r *retries) remaining(c *course, err error, h callerPatience) (left time.Duration, over error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil && r.unproven && r.good == 0 && unreachable(err) {
		return 0, err
	}
	since := later(r.since, c.began)
	limit, begun := r.patience, c.began // these values apply if the last try got a bad answer
	if err != nil {
		limit, begun = r.silencePatience(), since
	}
	switch left, patient := limit-time.Since(since), h.remaining(begun); {
	case patient <= 0:
		return 0, r.awayError(begun, r.cause)
	case left <= 0:
		return 0, r.awayError(since, r.cause)
	default:
		return min(left, patient), nil
	}
}

// silencePatience is how long a request waits for a completely silent host. The caller holds r.mu.
func (r *retries) silencePatience() time.Duration {
	if r.unproven && r.good == 0 {
		return min(r.patience, firstPatience)
	}
	return r.patience
}

// backoff returns the pause after the given number of tries. The argument `first` is the approximate pause after one try.
// The pause grows with each try, up to maxRetryDelay, and is partly random.
func backoff(first time.Duration, try int) time.Duration {
	longest := min(time.Duration(int(1)<<min(try, 20)-1)*min(first, maxRetryDelay), maxRetryDelay)
	return time.Duration(float64(longest) * (rand.Float64()/4 + 0.75))
}
