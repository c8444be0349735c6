package storage

import (
	"context"
	"math"
	"net/http"
	"sync/atomic"
	"time"

	"tablesweep/internal/task/memory"
)

// RequestOptions say how requests are made. The zero value is what most callers use:
// requests are retried as the [Account]'s [Options] say. [Table.With], [Batch.With] and
// [Queue.With] take them.
type RequestOptions struct {
	// Counter, if set, counts the requests.
	Counter *Counter
	// Once means that requests are not retried. It is for callers that retry by
	// themselves, and must notice soon that the service is back.
	Once bool
	// MaxErrors, if set, ends a request after so many answers 500 in a row that don't ask for less
	// load: it may be the request's fault. Such an [Error] is [Broken].
	MaxErrors int
	// Stop, if set and closed, ends retries. Requests under way go on.
	Stop <-chan struct{}
	// MayProceed, if set, is called before each try, however many there are. Its error keeps the try from being made, and ends the request:
	// see [HeldBack].
	MayProceed func(context.Context) error
	// Requests and Rows, if set, are the most requests, and rows read or written, a second. Each
	// try waits for them.
	Requests, Rows *Limit
	// OnBusy, if set, is called when the service is too busy. The request is retried after
	// the pause that OnBusy returns, or after the usual pause if that is 0. OnBusy must not
	// block, and may be called concurrently.
	OnBusy func() time.Duration
	// Waiting, if set, is the number of requests that now wait for their retry.
	Waiting *atomic.Int64
	// Memory, if set, is used for the answers of queries as they come in, and until its holder says otherwise. Where it does not suffice,
	// the query ends with [memory.ErrFull].
	Memory *memory.Part
}

// Counter counts requests, retries included, which the service bills as transactions.
type Counter struct {
	// OnThrottle, if set, is called for every throttled request, before its retry. waits means
	// that the answer says how long to wait. It must not block, and may be called concurrently.
	OnThrottle func(waits bool)

	n, doubts, throttles atomic.Int64
}

// Requests returns the number of requests counted so far.
func (c *Counter) Requests() int64 { return c.n.Load() }

// Throttled returns the number of requests that were throttled so far.
func (c *Counter) Throttled() int64 { return c.throttles.Load() }

// Doubts returns the number of requests with an unknown outcome: no answer came, or one
// that the service may give although it carries the request out.
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

// throttled reports a throttled request.
func (c *Counter) throttled(resp *http.Response) {
	if c == nil {
		return
	}
	c.throttles.Add(1)
	if c.OnThrottle != nil {
		c.OnThrottle(retryAfter(resp) > 0)
	}
}

// newExchange returns the exchange of a request to be made with the options.
func newExchange(o RequestOptions, op operation) *exchange {
	return &exchange{options: o, operation: op, failed: -1}
}

type exchangeKey struct{}

// in returns a context with the exchange. In the SDK's pipeline a context is the only way from
// a request to the policies, and this is its only value.
func (x *exchange) in(ctx context.Context) context.Context {
	x.patience, _ = ctx.Value(patienceKey{}).(callerPatience)
	return context.WithValue(ctx, exchangeKey{}, x)
}

// exchangeOf returns the exchange of a request. Every request of this package has one.
func exchangeOf(ctx context.Context) *exchange { return ctx.Value(exchangeKey{}).(*exchange) }

type patienceKey struct{}

// callerPatience is the patience of a caller, and when it began. The zero callerPatience has none of its own.
type callerPatience struct {
	began    time.Time
	patience time.Duration
}

// WithPatience returns a context whose requests end with [ErrAway] once an account has given them no good answer for
// so long, counted from now or from its last good answer, whichever is later. It is no deadline: requests
// that are answered go on. The account's own patience may end before, and with 0 it is the only one.
func WithPatience(ctx context.Context, patience time.Duration) context.Context {
	return context.WithValue(ctx, patienceKey{}, callerPatience{time.Now(), patience})
}

// HasPatience reports whether the context is one of [WithPatience].
func HasPatience(ctx context.Context) bool {
	h, _ := ctx.Value(patienceKey{}).(callerPatience)
	return h.patience > 0
}

// left is how long a caller is still patient with a host that has given no good answer since a time.
func (h callerPatience) left(since time.Time) time.Duration {
	if h.patience == 0 {
		return math.MaxInt64
	}
	return h.patience - time.Since(later(since, h.began))
}
