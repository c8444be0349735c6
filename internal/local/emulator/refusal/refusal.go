// Package refusal defines the errors of the emulated services. Each error has a code, the code's HTTP status, and a
// message.
//
// Other packages decide in which form an answer contains the error: OData JSON, XML, or a part of a batch.
package refusal

import "net/http"

// Error is a request's refusal.
type Error struct {
	Code    string      // from the documented error codes of the Table, Queue and Blob services
	Message string      // one sentence that explains the error to a person
	Details [][2]string // additional names and values, in answers of the Queue service
}

// New returns the error with the given code, message and details.
func New(code string, message string, details ...[2]string) *Error {
	return &Error{code, message, details}
}

// Error returns the code and the message.
func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Status returns the HTTP status that the services use for the code.
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
