package storage

import (
	"context"
	"math"
	"net/http"
	"sync/atomic"
	"time"

	"tablesweep/internal/task/memory"
)

// RequestOptions control how requests are made. Most callers use the zero value, which
// retries requests as the [Account]'s [Options] define. [Table.With], [Batch.With] and
// [Queue.With] take them.
type RequestOptions struct {
	// Counter, if set, counts the requests.
	Counter *Counter
	// Once means that requests are not retried. It is for callers that retry
	// themselves and must notice soon that the service is back.
	Once bool
	// MaxErrors, if set, ends a request after that number of consecutive 500 answers that do not mean overload, because the
	// request may be the cause. Such an [Error] is [Broken].
	MaxErrors int
	// Stop, if set and closed, ends retries. Requests that have been sent continue.
	Stop <-chan struct{}
	// MayProceed, if set, is called before each try. Its error prevents the try and ends the request:
	// see [HeldBack].
	MayProceed func(context.Context) error
	// Requests and Rows, if set, are the maximum of requests, and of rows read or written, a second. Each
	// try waits for them.
	Requests, Rows *Limit
	// OnBusy, if set, is called when the service is too busy. The request is retried after
	// the pause that OnBusy returns, or after the usual pause if that is 0. OnBusy must not
	// block, and may be called concurrently.
	OnBusy func() time.Duration
	// Waiting, if set, is the number of requests that now wait for their retry.
	Waiting *atomic.Int64
	// Memory, if set, is charged for the answers of queries as they arrive, until its owner releases it. If it is full,
	// the query ends with [memory.ErrFull].
	Memory *memory.Part
}

// Counter counts requests, retries included, which the service bills as transactions.
type Counter struct {
	// OnThrottle, if set, is called for every throttled request, before its retry. The argument waits is true if the answer has a
	// Retry-After. It must not block, and may be called concurrently.
	OnThrottle func(waits bool)

	n, doubts, throttles atomic.Int64
}

// Requests returns the number of requests counted so far.
func (c *Counter) Requests() int64 { return c.n.Load() }

// Throttled returns the number of requests that were throttled so far.
func (c *Counter) Throttled() int64 { return c.throttles.Load() }

// Doubts returns the number of requests with an unknown outcome: no answer came, or the answer leaves open whether the service
// has carried the request out.
func (c *Counter) Doubts() int64 { return c.doubts.Load() }

// sent counts a request that is about to be sent.
func (c *Counter) sent() {
	if c != nil {
		c.n.Add(1)
	}
}

// doubtful counts a request with an unknown outcome.
func (c *Counter) doubtful() {
	if c != nil {
		c.doubts.Add(1)
	}
}

// throttled counts a throttled request.
func (c *Counter) throttled(resp *http.Response) {
	if c == nil {
		return
	}
	c.throttles.Add(1)
	if c.OnThrottle != nil {
		c.OnThrottle(retryAfter(resp) > 0)
	}
}

// newExchange returns the exchange of a request with the options.
func newExchange(o RequestOptions, op operation) *exchange {
	return &exchange{options: o, operation: op, failed: -1}
}

type exchangeKey struct{}

// in returns a context with the exchange. In the SDK's pipeline, only a context connects a request with the policies. The
// exchange is that context's only value.
func (x *exchange) in(ctx context.Context) context.Context {
	x.patience, _ = ctx.Value(patienceKey{}).(callerPatience)
	return context.WithValue(ctx, exchangeKey{}, x)
}

// exchangeOf returns the exchange of a request. Every request of this package has one.
func exchangeOf(ctx context.Context) *exchange { return ctx.Value(exchangeKey{}).(*exchange) }

type patienceKey struct{}

// callerPatience is the patience of a caller, and the time when it began. The zero callerPatience does not limit.
type callerPatience struct {
	began    time.Time
	patience time.Duration
}

// WithPatience returns a context for requests that end with [ErrAway] once an account has given them no good answer for the given
// time. The time counts from now or from the account's last good answer, whichever is later. Unlike a deadline, it does not end
// requests that are answered. The account's own patience may end earlier. With 0, only the account's patience counts.
func WithPatience(ctx context.Context, patience time.Duration) context.Context {
	return context.WithValue(ctx, patienceKey{}, callerPatience{time.Now(), patience})
}

// HasPatience reports whether the context comes from [WithPatience].
func HasPatience(ctx context.Context) bool {
	h, _ := ctx.Value(patienceKey{}).(callerPatience)
	return h.patience > 0
}

// left is the rest of the caller's patience with a host that has given no good answer since the given time.
func (h callerPatience) left(since time.Time) time.Duration {
	if h.patience == 0 {
		return math.MaxInt64
	}
	return h.patience - time.Since(later(since, h.began))
}
