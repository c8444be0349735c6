// Package problem says what an error means to those outside: which HTTP status a
// caller gets, and whether the message that led to it is tried again. Handlers
// consult only the table in this package. An error that is none of its kinds is
// a failure of ours and worth another try.
package problem

import (
	"context"
	"errors"
	"fmt"
)

// Kind classifies an error.
type Kind int

// The kinds of errors.
const (
	Failed        Kind = iota // something broke on our side or the service's; may pass
	Busy                      // the storage did not answer in time
	Invalid                   // the request or message is wrong, and stays wrong
	NotFound                  // what the request names does not exist
	Conflict                  // the request does not fit the present state
	TooLarge                  // the request or message is larger than we take
	Stale                     // the message's work has been done, or is no longer wanted
	WrongMethod               // the address takes other HTTP methods
	NotReady                  // the app can't work yet; its log tells why, apart from any call
	WrongEncoding             // the request's body has a Content-Encoding that we don't take
	Unmet                     // a condition that the request makes does not hold
)

// Fate is what becomes of a queue message whose handling ended with an error.
type Fate int

// The fates of a message.
const (
	Retry  Fate = iota // delivered again, until the host has tried often enough
	Done               // handled; the error is for the log only
	Poison             // can't ever be handled; the host moves it to the poison queue
)

// outcomes is the one table from an error's kind to its consequences. The statuses
// are numbers so that packages which only decide can name errors without net/http.
var outcomes = [...]struct {
	status int // of HTTP
	fate   Fate
}{
	Failed:        {500, Retry},
	Busy:          {503, Retry},
	Invalid:       {400, Poison},
	NotFound:      {404, Done},
	Conflict:      {409, Done},
	TooLarge:      {413, Poison},
	Stale:         {200, Done},
	WrongMethod:   {405, Poison},
	WrongEncoding: {415, Poison},
	NotReady:      {503, Retry},
	Unmet:         {412, Done},
}

// Error is an error with a kind, and the field of the request to change.
type Error struct {
	Kind   Kind
	Field  string // path of the request's field, such as source.table; may be empty
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

// The constructors: each returns an error of its kind about the request's field,
// which may be empty.

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

func newf(kind Kind, field, format string, args ...any) *Error {
	return &Error{Kind: kind, Field: field, Detail: fmt.Sprintf(format, args...)}
}

// Because returns the error with its cause, which is for the log.
func (e *Error) Because(cause error) *Error {
	e.Err = cause
	return e
}

// Of returns the error as an [Error]. One that has no kind is Busy if time ran out,
// and Failed otherwise; its text is for the log, not for callers.
func Of(err error) *Error {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Kind: Busy, Detail: "the storage did not answer in time; try again later", Err: err}
	}
	return &Error{Kind: Failed, Detail: "something went wrong; the app's log tells what", Err: err}
}

// All returns the [Error]s among those that are joined in err, in their order: what
// is wrong with each field, where [Of] returns the first.
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

// Status returns the HTTP status for the error, 200 for nil.
func Status(err error) int {
	if err == nil {
		return 200
	}
	return outcomes[Of(err).Kind].status
}

// FateOf returns what becomes of the message whose handling ended with err.
func FateOf(err error) Fate {
	if err == nil {
		return Done
	}
	return outcomes[Of(err).Kind].fate
}
