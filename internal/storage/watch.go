package storage

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

const (
	watchTime = time.Second // interval between checks of the current tries
	// firstSilence is the maximum time that a request's first try waits for the next byte. The service
	// may take 30 s to answer, so each further try waits 10 s longer than the previous try. sendTime
	// allows for the time of sending a large body.
	firstSilence = 10 * time.Second
	sendTime     = time.Second / (32 << 10) // added to tryTimeout and firstSilence for each byte of a body
)

type try struct {
	request  time.Time // when the try's request began
	sent     time.Time
	limit    time.Duration  // maximum time for the whole answer, even if bytes still arrive
	allowed  time.Duration  // longest silence before the try is abandoned
	patience callerPatience // the caller's patience
	lastByte atomic.Int64   // time of the answer's last byte, or of the try's beginning if no byte has come, in nanoseconds
	giveUp   context.CancelCauseFunc
}

// silent is the time since the try's last byte.
func (t *try) silent() time.Duration { return time.Since(time.Unix(0, t.lastByte.Load())) }

func (t *try) touch() { t.lastByte.Store(time.Now().UnixNano()) }

// watchedBody is an answer's body that records when bytes arrive.
type watchedBody struct {
	io.ReadCloser
	try *try
}

func (h watchedBody) Read(b []byte) (int, error) {
	n, err := h.ReadCloser.Read(b)
	h.try.touch()
	return n, err
}

// noAnswer is the error of an abandoned try.
type noAnswer struct{ after time.Duration }

func (n noAnswer) Error() string {
	return fmt.Sprintf(noAnswerWithin+"%v", n.after.Round(time.Second))
}

// tryOnce makes one try of a request. The argument `began` is the time when the request began. If the try hangs, or if the
// request has waited longer than the account or the caller allows, tryOnce abandons the try.
func (r *retries) tryOnce(req *policy.Request, number int, began time.Time) (*http.Response, error) {
	caller := req.Raw().Context()
	x := exchangeOf(caller)
	ctx, giveUp := context.WithCancelCause(caller)
	defer giveUp(nil) // when tryOnce returns, the answer has been read
	t := &try{request: began, sent: time.Now(), patience: x.patience, giveUp: giveUp}
	t.limit = tryTimeout + time.Duration(x.size+x.expect)*sendTime
	t.allowed = time.Duration(number) * (firstSilence + time.Duration(x.size)*sendTime)
	t.touch()
	x.try = t
	r.mu.Lock()
	if r.tries = append(r.tries, t); !r.watching {
		r.watching = true
		time.AfterFunc(watchTime, r.watch)
	}
	r.mu.Unlock()
	req = req.WithContext(ctx)
	if number > 1 { // the previous try may have been abandoned, but the transport may still be sending it
		req.Raw().Header = maps.Clone(req.Raw().Header)
	}
	resp, err := req.Next()
	if err == nil {
		r.clock.observe(resp, t.sent)
		if caller.Err() != nil { // an answer that comes too late for the caller is ignored: a commit must not seem to succeed after its deadline
			resp, err = nil, caller.Err()
		}
	}
	r.mu.Lock()
	r.tries = slices.DeleteFunc(r.tries, func(other *try) bool { return other == t })
	r.mu.Unlock()
	if given, ok := context.Cause(ctx).(noAnswer); ok && err != nil {
		return nil, given
	}
	return resp, err
}

// watch checks the current tries until all have ended.
func (r *retries) watch() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.watching = len(r.tries) > 0; !r.watching {
		return
	}
	time.AfterFunc(watchTime, r.watch)
	limit := r.silencePatience()
	given := false
	for _, t := range r.tries {
		took := time.Since(t.sent)
		left := min(limit-time.Since(later(r.since, t.request)), t.patience.remaining(t.request))
		if left <= 0 || took >= t.limit || t.silent() >= t.allowed {
			t.giveUp(noAnswer{took})
			given = true
		}
	}
	if given && r.closeIdle != nil {
		r.closeIdle() // idle connections may hang too
	}
}
