package storage

import (
	"cmp"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"tablesweep/internal/problem/secret"
	"tablesweep/internal/task/memory"
)

// Error is a refusal by the service.
type Error struct {
	Op      string // the request, its table, queue or blob, and its connection
	Status  int    // HTTP status; for a batch, the status of the failed operation
	Code    string // the service's error code, such as EntityAlreadyExists
	Message string // the first line of the service's message
	Index   int    // index of the batch's failed operation, or -1 if the whole request failed

	expired time.Time // when the request's SAS expired, by the service's clock; zero if it had not expired
}

func (e *Error) Error() string {
	code := e.Code
	if code == "" {
		code = http.StatusText(e.Status)
	}
	text := fmt.Sprintf("%s: %d %s: %s", e.Op, e.Status, code, e.Message)
	if !e.expired.IsZero() {
		text += "; the SAS expired at " + e.expired.Format(time.RFC3339)
	}
	return text
}

// Temporary reports whether the same request may succeed later, because the service was busy or timed out. If the request was a write, its outcome
// may be unknown.
func (e *Error) Temporary() bool {
	return e.Status >= 500 || e.Status == http.StatusRequestTimeout || e.Status == http.StatusTooManyRequests ||
		beingDeleted(e.Code)
}

// BeingDeleted reports whether err means that a table, queue or container is being deleted. The name is free again
// after about 40 s. (Microsoft Learn, "Delete Table", "Delete Queue", "Delete Container")
func BeingDeleted(err error) bool {
	var e *Error
	return errors.As(err, &e) && beingDeleted(e.Code)
}

func beingDeleted(code string) bool {
	return code == "TableBeingDeleted" || code == "QueueBeingDeleted" || code == "ContainerBeingDeleted"
}

// Broken reports whether err is an answer with status 500 that does not mean overload. Such an answer means that the
// service could not carry out the request.
func Broken(err error) bool {
	var e *Error
	return errors.As(err, &e) && brokenBy(e.Status, e.Code)
}

func brokenBy(status int, code string) bool {
	return status == http.StatusInternalServerError && code != "OperationTimedOut"
}

// Permanent reports whether the same request can never succeed. Either the service refuses the request permanently, or Cosmos
// DB does not support it.
func Permanent(err error) bool {
	var e *Error
	return errors.As(err, &e) && !e.Temporary() || errors.Is(err, errUnsorted) || errors.Is(err, errNotWritten)
}

// errNoAnswer marks requests that the service did not answer.
var errNoAnswer = errors.New("no answer from the service")

// Passing reports whether a later retry may succeed: the service was busy or did not
// answer, or time ran out.
func Passing(err error) bool {
	var e *Error
	if errors.As(err, &e) {
		return e.Temporary()
	}
	return errors.As(err, new(*strangeAnswer)) || errors.Is(err, errNoAnswer) || errors.Is(err, ErrAway) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// HasCode reports whether err is the service's error with one of the codes.
func HasCode(err error, codes ...string) bool {
	var e *Error
	return errors.As(err, &e) && slices.Contains(codes, e.Code)
}

// NotFound reports whether err means that a row, table, queue, message, container or blob does not exist.
func NotFound(err error) bool {
	return HasCode(err, "ResourceNotFound", "EntityNotFound", "TableNotFound", "QueueNotFound", "MessageNotFound", "ContainerNotFound", "BlobNotFound")
}

// Gone reports whether err means that something does not exist, or that its table, queue or container is being deleted.
func Gone(err error) bool { return NotFound(err) || BeingDeleted(err) }

// Denied reports whether err means that the caller lacks the permission for the request.
func Denied(err error) bool {
	var e *Error
	return errors.As(err, &e) && (e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden)
}

// Expired reports whether err means that the service refused a request because its SAS has expired. The service may
// report only that a permission is missing. Therefore, the error's text also contains the time at which the SAS expired.
func Expired(err error) bool {
	var e *Error
	return errors.As(err, &e) && !e.expired.IsZero()
}

// expiry returns when the SAS of a refused request expired, according to the SAS's parameter `se`. The result is zero if
// there was no SAS, or if it was still valid. (Microsoft Learn, "Create an account SAS")
func expiry(refusal *http.Response) time.Time {
	now, err := http.ParseTime(refusal.Header.Get("Date"))
	if err != nil || refusal.Request == nil {
		return time.Time{}
	}
	se := refusal.Request.URL.Query().Get("se")
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00", time.DateOnly} {
		if end, err := time.Parse(layout, se); err == nil && end.Before(now) {
			return end
		}
	}
	return time.Time{}
}

// Conflict reports whether err means that a row, table, queue, container or blob already exists.
func Conflict(err error) bool {
	return HasCode(err, "EntityAlreadyExists", "TableAlreadyExists", "QueueAlreadyExists", "ContainerAlreadyExists", "BlobAlreadyExists")
}

// wrap turns an SDK error into an [Error], and adds op to any other error.
func wrap(op string, x *exchange, err error) error {
	if err == nil {
		return nil
	}
	op += " of " + x.connection
	var re *azcore.ResponseError
	if !errors.As(err, &re) {
		if err = x.redact(err); Passing(err) || errors.Is(err, memory.ErrFull) {
			return fmt.Errorf("%s: %w", op, err)
		}
		return fmt.Errorf("%s: %w: %w", op, errNoAnswer, err)
	}
	code, message := serviceError(x.answer)
	// The message's first line contains the reason. The operation's index may precede the reason.
	message, _, _ = strings.Cut(message, "\n")
	message = strings.TrimSpace(strings.TrimPrefix(message, strconv.Itoa(x.failed)+":"))
	message = cmp.Or(x.hide(message), "the service gave no reason")
	e := &Error{Op: op, Status: re.StatusCode, Code: x.hide(cmp.Or(re.ErrorCode, code)), Message: message, Index: x.failed}
	if Denied(e) {
		e.expired = expiry(re.RawResponse)
	}
	return e
}

// hide makes a text from an answer or from the transport safe to store and show. It removes everything that looks like
// a secret. It also removes the request's own signature, because a server may repeat the request's URL or headers in
// an answer.
func (x *exchange) hide(text string) string {
	if x.sent == nil {
		return secret.Hide(text)
	}
	authorization := x.sent.Header.Get("Authorization")
	_, signature, _ := strings.Cut(authorization, ":") // a Shared Key header ends with ":" and the signature
	_, token, _ := strings.Cut(authorization, " ")
	q := x.sent.URL.Query()
	return secret.Hide(secret.Cut(text, signature, token, q.Get("sig"), x.clientSecret))
}

// redactedError is an error from whose text [exchange.hide] has removed secrets.
type redactedError struct {
	text  string
	cause error
}

func (t *redactedError) Error() string { return t.text }
func (t *redactedError) Unwrap() error { return t.cause }

// redact makes the text of a request's error safe to show. It removes the URL, which may contain a shared access
// signature.
func (x *exchange) redact(err error) error {
	err = withoutURL(err)
	if text := x.hide(err.Error()); text != err.Error() {
		return &redactedError{text, err}
	}
	return err
}

func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// serviceError reads the code and the message from an error's body. The Table service sends JSON, and the
// Queue and Blob services send XML.
func serviceError(body []byte) (code, message string) {
	var table struct {
		Error struct {
			Code    string `json:"code"`
			Message struct {
				Value string `json:"value"`
			} `json:"message"`
		} `json:"odata.error"`
	}
	if json.Unmarshal(body, &table) == nil {
		return table.Error.Code, table.Error.Message.Value
	}
	var queue struct{ Code, Message string }
	if xml.Unmarshal(body, &queue) == nil {
		return queue.Code, queue.Message
	}
	return "", ""
}
