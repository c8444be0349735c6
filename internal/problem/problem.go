// Package problem maps errors to their consequences: the HTTP status for a caller, and whether a queue message is retried. One table in this package
// decides both. [Of] gives the kind Failed to an error without a kind, so such an error is retried.
package problem

import (
	"errors"
	"fmt"
	"strings"
)

// Kind classifies an error.
type Kind int

// The kinds of errors.
const (
	Failed        Kind = iota // something failed, here or in a service; a retry may work
	Busy                      // the storage was too busy or too slow
	Invalid                   // the request or message is wrong, so a retry cannot help
	NotFound                  // the request names something that does not exist
	Conflict                  // the request conflicts with the current state
	TooLarge                  // the request or message exceeds a size limit
	Stale                     // the message's work is already done, no longer needed, or done by another process
	WrongMethod               // the route does not support the request's HTTP method
	NotReady                  // the app cannot work yet; the log contains the reason only once, not for each call
	WrongEncoding             // the body has an unsupported Content-Encoding
	Unmet                     // a condition of the request, such as If-Match, does not hold
	KeyReused                 // the request has the Idempotency-Key of another request
	Moving                    // the catalog's records are being moved to another schema; this state ends by itself
	Deleting                  // a table, queue or container of that name is being deleted; this state ends by itself
	Forbidden                 // a page of another site has sent the request without permission
	NotProxied                // the Functions host changes requests before it passes them on
)

// Fate defines what happens to a queue message after an error.
type Fate int

// The fates of a message.
const (
	Retry  Fate = iota // the host delivers the message again, up to the host's limit
	Done               // the message counts as handled; the error is only logged
	Poison             // retries cannot help, but the host still retries, and then moves the message to the poison queue
)

// outcomes lists the consequences of each kind. The statuses are numbers, so that a package can use these errors without importing net/http.
var outcomes = [...]struct {
	code   string // the kind's name in logs
	status int    // the HTTP status
	fate   Fate
}{
	Failed:        {"failed", 500, Retry},
	Busy:          {"busy", 503, Retry},
	Invalid:       {"invalid", 400, Poison},
	NotFound:      {"notFound", 404, Done},
	Conflict:      {"conflict", 409, Done},
	TooLarge:      {"tooLarge", 413, Poison},
	Stale:         {"stale", 200, Done},
	WrongMethod:   {"wrongMethod", 405, Poison},
	WrongEncoding: {"wrongEncoding", 415, Poison},
	NotReady:      {"notReady", 503, Retry},
	Unmet:         {"unmet", 412, Done},
	KeyReused:     {"keyReused", 422, Done},
	Moving:        {"moving", 503, Done},
	Deleting:      {"deleting", 409, Retry},
	Forbidden:     {"forbidden", 403, Poison},
	NotProxied:    {"notProxied", 502, Poison},
}

// String returns the kind's code, for logs.
func (k Kind) String() string { return outcomes[k].code }

// Error is an error with a kind.
type Error struct {
	Kind   Kind
	Field  string // the path of the request's field to change, such as source.table; may be empty
	Detail string // what is wrong and what to change
	Err    error  // the cause, for the log; may be nil
}

func (e *Error) Error() string {
	s := e.Detail
	if e.Field != "" {
		s = e.Field + ": " + s
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// Each constructor below returns an error of the kind in its name. The argument `field` names the field of the request
// that caused the error, or is "".

// Invalidf: see [Invalid].
func Invalidf(field, format string, args ...any) *Error { return newf(Invalid, field, format, args...) }

// NotFoundf: see [NotFound].
func NotFoundf(field, format string, args ...any) *Error {
	return newf(NotFound, field, format, args...)
}

// Conflictf: see [Conflict].
func Conflictf(field, format string, args ...any) *Error {
	return newf(Conflict, field, format, args...)
}

// Unmetf: see [Unmet].
func Unmetf(field, format string, args ...any) *Error { return newf(Unmet, field, format, args...) }

// TooLargef: see [TooLarge].
func TooLargef(field, format string, args ...any) *Error {
	return newf(TooLarge, field, format, args...)
}

// WrongMethodf: see [WrongMethod].
func WrongMethodf(field, format string, args ...any) *Error {
	return newf(WrongMethod, field, format, args...)
}

// WrongEncodingf: see [WrongEncoding].
func WrongEncodingf(field, format string, args ...any) *Error {
	return newf(WrongEncoding, field, format, args...)
}

// Busyf: see [Busy].
func Busyf(field, format string, args ...any) *Error { return newf(Busy, field, format, args...) }

// NotReadyf: see [NotReady].
func NotReadyf(field, format string, args ...any) *Error {
	return newf(NotReady, field, format, args...)
}

// Stalef: see [Stale].
func Stalef(field, format string, args ...any) *Error { return newf(Stale, field, format, args...) }

// ReusedKey: see [KeyReused].
func ReusedKey() *Error {
	return newf(KeyReused, "Idempotency-Key", "was used for a request with other contents; use a new key for each request")
}

// Movingf: see [Moving].
func Movingf(field, format string, args ...any) *Error { return newf(Moving, field, format, args...) }

// BeingDeleted: see [Deleting].
func BeingDeleted(field string, err error) *Error {
	return newf(Deleting, field, "is being deleted; try again in a minute").Because(err)
}

// Forbiddenf: see [Forbidden].
func Forbiddenf(field, format string, args ...any) *Error {
	return newf(Forbidden, field, format, args...)
}

// NotProxiedf: see [NotProxied].
func NotProxiedf(field, format string, args ...any) *Error {
	return newf(NotProxied, field, format, args...)
}

func newf(kind Kind, field, format string, args ...any) *Error {
	return &Error{Kind: kind, Field: field, Detail: fmt.Sprintf(format, args...)}
}

// Because stores the argument `cause` in the error, and returns the error. Callers see the cause if the status is below 500, or if the
// kind is [NotReady] and the cause is a refusal or a temporary error of the storage. Otherwise only the log shows the cause.
func (e *Error) Because(cause error) *Error {
	e.Err = cause
	return e
}

// Of returns the error as an [Error]. An error without a kind becomes Failed, and only the log shows its text.
func Of(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Kind: Failed, Detail: "something went wrong; see the app's log", Err: err}
}

// All returns all [Error] values that are joined in err, in their order. [Of] returns the first.
func All(err error) []*Error {
	var all []*Error
	switch e := err.(type) {
	case *Error:
		return []*Error{e}
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			all = append(all, All(one)...)
		}
	case interface{ Unwrap() error }:
		return All(e.Unwrap())
	}
	return all
}

// Status returns the HTTP status for the error, or 200 for nil.
func Status(err error) int {
	if err == nil {
		return 200
	}
	return outcomes[Of(err).Kind].status
}

// FateOf returns the fate of a message whose handling has returned err.
func FateOf(err error) Fate {
	if err == nil {
		return Done
	}
	return outcomes[Of(err).Kind].fate
}

// Named lists names for a message: at most the given number of names, and the number of further names.
func Named(names []string, most int) string {
	list := strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return list
}

// Plural returns a number with its noun.
func Plural[N int | int64](n N, noun string) string {
	stem, y := strings.CutSuffix(noun, "y")
	switch {
	case n != 1 && y:
		noun = stem + "ies"
	case n != 1:
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
