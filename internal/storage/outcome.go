package storage

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"tablesweep/internal/task/memory"
)

// outcome is the result of a try, with or without an answer.
type outcome int

const (
	decided    outcome = iota + 1 // the outcome is final: a repetition would end the same way
	unanswered                    // no connection could be made, a connection broke, or no answer came
	refused                       // another server, such as a proxy that is misconfigured for a moment, answered 3xx or 4xx
	outOfTime                     // the service, or a proxy in front of it, gave up
	tooBusy                       // the service is overloaded
	failing                       // the service could not carry out the request, perhaps because of the request itself
	deleting                      // a table, queue or container cannot be created, because an earlier one of the same name is being deleted
)

const (
	maxRetries     = 40
	maxBusyRetries = 10 * maxRetries
	// refusedFor is short, because a proxy that forbids a request rarely lets it through later.
	refusedFor = 30 * time.Second
)

// rules lists the consequences of each outcome. A failed request is repeated until a rule allows no further try, or
// until the account's [Options.Patience] is over.
var rules = [...]struct {
	tries   int           // maximum number of failed tries while the host answers other requests
	lasts   time.Duration // how long a request is repeated while every try has this outcome; 0 means until the patience is over
	woken   int           // number of pauses that end early when another request gets a good answer
	slows   bool          // OnBusy is called
	failure bool          // the outcome counts for [RequestOptions.MaxErrors]
}{
	unanswered: {tries: maxRetries, woken: math.MaxInt},
	refused:    {tries: maxBusyRetries, lasts: refusedFor, woken: 3}, // a proxy that refuses this request may let other requests through
	outOfTime:  {tries: maxBusyRetries},
	tooBusy:    {tries: maxBusyRetries, slows: true},
	failing:    {tries: maxBusyRetries, slows: true, failure: true},
	deleting:   {tries: maxBusyRetries},
}

// outcomeOf returns a try's outcome. `awaits` is the account's [Options.AwaitDeletion].
func (x *exchange) outcomeOf(resp *http.Response, err error, awaits bool) outcome {
	if err != nil {
		var never interface{ NonRetriable() }
		switch {
		case errors.As(err, &never), errors.Is(err, context.Canceled), errors.Is(err, memory.ErrFull), strangeRefusal(err) && x.plain:
			return decided
		case strangeRefusal(err):
			return refused
		}
		return unanswered
	}
	code := func() string { return codeOf(resp.Header, x.answer) } // a function, because only bad answers need the code, and parsing the body costs time
	switch status := resp.StatusCode; status {
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		return tooBusy
	case http.StatusInternalServerError:
		if brokenBy(status, code()) {
			return failing
		}
		return tooBusy
	case http.StatusRequestTimeout, http.StatusBadGateway, http.StatusGatewayTimeout:
		return outOfTime
	case http.StatusConflict:
		if awaits && x.creates && beingDeleted(code()) {
			return deleting
		}
	}
	return decided
}

// Causes of failed tries. itAnswers and noAnswerWithin are only the first words of causes.
const (
	connectionRefused = "connection refused"
	noHost            = "no such host"
	connectionBroken  = "connection broken"
	itAnswers         = "it answers "
	noAnswerWithin    = "no answer within "
)

// noAnswerYet is the cause before the first failed try.
const noAnswerYet = "no answer yet"

func retryAfter(resp *http.Response) time.Duration {
	if resp == nil {
		return 0
	}
	text := resp.Header.Get("Retry-After")
	if seconds, err := strconv.Atoi(text); err == nil {
		return max(0, time.Duration(seconds)*time.Second)
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(at))
	}
	return 0
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

// unreachable reports whether an error suggests that the host's address is wrong. It is called only if the host has
// never given a good answer.
func unreachable(err error) bool {
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var passing interface{ Timeout() bool }
	return dialing(err) && !(errors.As(err, &passing) && passing.Timeout()) || errors.As(err, &certificate) || errors.As(err, &record)
}

// causeOf describes a failed try in a few words, without secrets. For a try that was abandoned in its first
// second, it returns "".
func (x *exchange) causeOf(resp *http.Response, err error) string {
	var op *net.OpError
	var given noAnswer
	switch {
	case errors.As(err, &given) && given.after < time.Second:
		return ""
	case err == nil:
		return fmt.Sprintf(itAnswers+"%d %s", resp.StatusCode, cmp.Or(x.hide(codeOf(resp.Header, x.answer)), http.StatusText(resp.StatusCode)))
	case errors.Is(err, syscall.ECONNREFUSED):
		return connectionRefused
	case noSuchHost(err):
		return noHost
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &op) && op.Op != "dial":
		return connectionBroken
	}
	return x.redact(err).Error()
}
