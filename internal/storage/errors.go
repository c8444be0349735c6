package storage

import (
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

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
)

// Error is a refusal by the service.
type Error struct {
	Op      string // the request, with its table or queue
	Status  int    // HTTP status; of the failed operation, for a batch
	Code    string // the service's error code, such as EntityAlreadyExists
	Message string // the service's message, its first line
	Index   int    // the batch's operation that failed; -1 for the request as a whole
}

func (e *Error) Error() string {
	code := e.Code
	if code == "" {
		code = http.StatusText(e.Status)
	}
	return fmt.Sprintf("%s: %d %s: %s", e.Op, e.Status, code, e.Message)
}

// Temporary reports whether the same request may succeed later: the service was
// busy or timed out. The outcome of a write may then be unknown.
func (e *Error) Temporary() bool {
	return e.Status >= 500 || e.Status == http.StatusRequestTimeout || e.Status == http.StatusTooManyRequests ||
		e.Code == "TableBeingDeleted" || e.Code == "QueueBeingDeleted"
}

// Permanent reports whether err is a refusal by the service that repeating the
// request will not change.
func Permanent(err error) bool {
	var e *Error
	return errors.As(err, &e) && !e.Temporary()
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
	return errors.Is(err, errNoAnswer) || errors.Is(err, ErrAway) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// HasCode reports whether err is the service's error with one of the codes.
func HasCode(err error, codes ...string) bool {
	var e *Error
	return errors.As(err, &e) && slices.Contains(codes, e.Code)
}

// NotFound reports whether err says that a row, table, queue or message does not exist.
func NotFound(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == http.StatusNotFound
}

// Conflict reports whether err says that a row, table or queue already exists.
func Conflict(err error) bool {
	return HasCode(err, "EntityAlreadyExists", "TableAlreadyExists", "QueueAlreadyExists")
}

// wrap turns an SDK error into an [Error]; others pass with op as context.
func wrap(op string, x *exchange, err error) error {
	if err == nil {
		return nil
	}
	var re *azcore.ResponseError
	if !errors.As(err, &re) {
		err = withoutURL(err)
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrAway) {
			return fmt.Errorf("%s: %w", op, err)
		}
		return fmt.Errorf("%s: %w: %w", op, errNoAnswer, err)
	}
	e := &Error{Op: op, Status: re.StatusCode, Code: re.ErrorCode, Index: x.failed}
	code, message := serviceError(x.answer)
	if e.Code == "" {
		e.Code = code
	}
	e.Message = cleanMessage(message, e.Index)
	if e.Message == "" {
		e.Message = "the service gave no reason"
	}
	return e
}

// withoutURL takes the request's URL out of a transport's error: a shared access
// signature is part of it.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// cleanMessage keeps the first line, which is the reason, and drops the index
// before it and the request id and time behind it.
func cleanMessage(message string, index int) string {
	message, _, _ = strings.Cut(message, "\n")
	if index >= 0 {
		message = strings.TrimPrefix(message, strconv.Itoa(index)+":")
	}
	return strings.TrimSpace(message)
}

// serviceError reads the code and message of an error's body: JSON of the Table
// service, XML of the Queue service.
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
