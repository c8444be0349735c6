package storage

import (
	"context"
	"math"
	"net/http"
	"sync/atomic"
	"time"

	"tablesweep/internal/task/memory"
)

// RequestOptions control how requests are made. The zero value retries requests as the [Account]'s [Options] define.
type RequestOptions struct {
	// Counter, if set, counts the requests.
	Counter *Counter
	// If Once is set, requests are not retried. If a caller must notice soon that the service answers again, it
	// sets Once and does its own retries.
	Once bool
	// If MaxErrors is set, a request ends with a [Broken] error after this number of consecutive answers with status
	// 500. The request itself may be the cause of these answers. Answers that mean overload do not count.
	MaxErrors int
	// When the channel Stop is closed, retries end. Requests that have been sent continue.
	Stop <-chan struct{}
	// MayProceed, if set, is called before each try. If it returns an error, the try is not made and the request ends: see
	// [HeldBack].
	MayProceed func(context.Context) error
	// Requests and Rows, if set, limit the requests per second, and the rows read or written per second. Each try waits until both
	// limits allow it.
	Requests, Rows *Limit
	// OnBusy, if set, is called when the service is too busy. It returns the pause before the retry, or 0 for the usual
	// pause. OnBusy must not block, and may be called concurrently.
	OnBusy func() time.Duration
	// Waiting, if set, counts the requests that currently wait for their retry.
	Waiting *atomic.Int64
	// Memory, if set, counts the memory of queries' answers as they arrive. The owner of the [memory.Part] releases this memory. If no memory is free,
	// the query ends with [memory.ErrFull].
	Memory *memory.Part
}

// Counter counts requests, retries included. The service bills each request as a transaction.
type Counter struct {
	// OnThrottle, if set, is called for every throttled request, before its retry. The argument of OnThrottle is true if
	// the answer has a Retry-After. OnThrottle must not block, and may be called concurrently.
	OnThrottle func(waits bool)

	n, doubts, throttles atomic.Int64
}

// Requests returns the number of requests so far.
func (c *Counter) Requests() int64 { return c.n.Load() }

// Throttled returns the number of requests that were throttled so far.
func (c *Counter) Throttled() int64 { return c.throttles.Load() }

// Doubts returns the number of requests with an unknown outcome: no answer came, or the answer does not show whether the service
// has carried out the request.
func (c *Counter) Doubts() int64 { return c.doubts.Load() }

func (c *Counter) countSent() {
	if c != nil {
		c.n.Add(1)
	}
}

func (c *Counter) countDoubtful() {
	if c != nil {
		c.doubts.Add(1)
	}
}

func (c *Counter) countThrottled(resp *http.Response) {
	if c == nil {
		return
	}
	c.throttles.Add(1)
	if c.OnThrottle != nil {
		c.OnThrottle(retryAfter(resp) > 0)
	}
}

func newExchange(o RequestOptions, op operation) *exchange {
	return &exchange{options: o, operation: op, failed: -1}
}

type exchangeKey struct{}

// attach stores the exchange in a context, because only a context passes through the SDK's pipeline to the policies.
func (x *exchange) attach(ctx context.Context) context.Context {
	x.patience, _ = ctx.Value(patienceKey{}).(callerPatience)
	return context.WithValue(ctx, exchangeKey{}, x)
}

// exchangeOf returns the exchange of a request. Every request of this package has an exchange.
func exchangeOf(ctx context.Context) *exchange { return ctx.Value(exchangeKey{}).(*exchange) }

type patienceKey struct{}

// callerPatience is the patience of a caller, and the time when it began. The zero value sets no
// limit.
type callerPatience struct {
	began    time.Time
	patience time.Duration
}

// WithPatience returns a context for requests. If an account gives no good answer for the given time, these requests end with [ErrAway]. The time starts
// when WithPatience is called, and starts again at each good answer of the account. Unlike a deadline, patience does not end requests while the account
// answers. The requests also end when the account's [Options.Patience] is over. If the argument `patience` is 0, only [Options.Patience] counts.
func WithPatience(ctx context.Context, patience time.Duration) context.Context {
	return context.WithValue(ctx, patienceKey{}, callerPatience{time.Now(), patience})
}

// HasPatience reports whether the context comes from [WithPatience].
func HasPatience(ctx context.Context) bool {
	h, _ := ctx.Value(patienceKey{}).(callerPatience)
	return h.patience > 0
}

// remaining returns how much of the caller's patience is left. The patience began at h.began or at the argument `since`,
// whichever is later.
func (h callerPatience) remaining(since time.Time) time.Duration {
	if h.patience == 0 {
		return math.MaxInt64
	}
	return h.patience - time.Since(later(since, h.began))
}
