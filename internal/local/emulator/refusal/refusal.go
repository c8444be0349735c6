// Package refusal holds the errors that the emulated services answer with: each
// has a code, the HTTP status that goes with it, and a message.
//
// How an error looks on the wire (OData JSON, XML, or a part of a batch) is not
// known here.
package refusal

import "net/http"

// Error is a request's refusal.
type Error struct {
	Code    string      // as in the documentation of the Table, Queue and Blob services' error codes
	Message string      // one sentence for a person, which says what is wrong
	Details [][2]string // names and values that the Queue service adds
}

// New returns the error with the given code, message and details.
func New(code string, message string, details ...[2]string) *Error {
	return &Error{code, message, details}
}

// Error returns the code and the message.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Status returns the HTTP status that the services send with the code.
func (e *Error) Status() int {
	switch e.Code {
	case "AuthenticationFailed", "AuthorizationFailure":
		return http.StatusForbidden
	case "ResourceNotFound", "TableNotFound", "QueueNotFound", "MessageNotFound", "ContainerNotFound", "BlobNotFound":
		return http.StatusNotFound
	case "UnsupportedHttpVerb":
		return http.StatusMethodNotAllowed
	case "EntityAlreadyExists", "TableAlreadyExists", "TableBeingDeleted", "QueueAlreadyExists", "QueueBeingDeleted", "ContainerAlreadyExists", "ContainerBeingDeleted", "BlobAlreadyExists",
		"LeaseAlreadyPresent", "LeaseIsBreakingAndCannotBeAcquired", "LeaseIsBrokenAndCannotBeRenewed", "LeaseIdMismatchWithLeaseOperation",
		"LeaseNotPresentWithLeaseOperation":
		return http.StatusConflict
	case "UpdateConditionNotSatisfied", "ConditionNotMet", "LeaseIdMissing", "LeaseIdMismatchWithBlobOperation", "LeaseNotPresentWithBlobOperation", "LeaseLost":
		return http.StatusPreconditionFailed
	case "InvalidRange":
		return http.StatusRequestedRangeNotSatisfiable
	case "RequestBodyTooLarge":
		return http.StatusRequestEntityTooLarge
	case "MediaTypeNotSupported", "AtomFormatNotSupported":
		return http.StatusUnsupportedMediaType
	case "OperationTimedOut":
		return http.StatusInternalServerError
	case "NotImplemented":
		return http.StatusNotImplemented
	case "ServerBusy":
		return http.StatusServiceUnavailable
	}
	return http.StatusBadRequest
}
