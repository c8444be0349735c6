// Package refusal holds the errors that the emulated services answer with: each
// has a code, the HTTP status that goes with it, and a message.
//
// How an error looks on the wire (OData JSON, XML, or a part of a batch) is not
// known here.
package refusal

import "net/http"

// Code is a service's error code, as in the documentation of the Table, Queue and
// Blob services' error codes.
type Code string

// The codes in use.
const (
	AtomFormatNotSupported                  Code = "AtomFormatNotSupported"
	AuthenticationFailed                    Code = "AuthenticationFailed"
	AuthorizationFailure                    Code = "AuthorizationFailure"
	BlobAlreadyExists                       Code = "BlobAlreadyExists"
	BlobNotFound                            Code = "BlobNotFound"
	CommandsInBatchActOnDifferentPartitions Code = "CommandsInBatchActOnDifferentPartitions"
	ContainerAlreadyExists                  Code = "ContainerAlreadyExists"
	ContainerNotFound                       Code = "ContainerNotFound"
	DuplicatePropertiesSpecified            Code = "DuplicatePropertiesSpecified"
	EmptyMetadataKey                        Code = "EmptyMetadataKey"
	EntityAlreadyExists                     Code = "EntityAlreadyExists"
	EntityTooLarge                          Code = "EntityTooLarge"
	InvalidDuplicateRow                     Code = "InvalidDuplicateRow"
	InvalidHeaderValue                      Code = "InvalidHeaderValue"
	InvalidInput                            Code = "InvalidInput"
	InvalidMetadata                         Code = "InvalidMetadata"
	InvalidQueryParameterValue              Code = "InvalidQueryParameterValue"
	InvalidRange                            Code = "InvalidRange"
	InvalidResourceName                     Code = "InvalidResourceName"
	InvalidXMLDocument                      Code = "InvalidXmlDocument"
	KeyValueTooLarge                        Code = "KeyValueTooLarge"
	MediaTypeNotSupported                   Code = "MediaTypeNotSupported"
	MessageNotFound                         Code = "MessageNotFound"
	MetadataTooLarge                        Code = "MetadataTooLarge"
	MissingRequiredHeader                   Code = "MissingRequiredHeader"
	MissingRequiredQueryParameter           Code = "MissingRequiredQueryParameter"
	NotImplemented                          Code = "NotImplemented"
	OperationTimedOut                       Code = "OperationTimedOut"
	OutOfRangeInput                         Code = "OutOfRangeInput"
	OutOfRangeQueryParameterValue           Code = "OutOfRangeQueryParameterValue"
	PopReceiptMismatch                      Code = "PopReceiptMismatch"
	PropertiesNeedValue                     Code = "PropertiesNeedValue"
	PropertyNameInvalid                     Code = "PropertyNameInvalid"
	PropertyNameTooLong                     Code = "PropertyNameTooLong"
	PropertyValueTooLarge                   Code = "PropertyValueTooLarge"
	QueueAlreadyExists                      Code = "QueueAlreadyExists"
	QueueNotFound                           Code = "QueueNotFound"
	RequestBodyTooLarge                     Code = "RequestBodyTooLarge"
	ResourceNotFound                        Code = "ResourceNotFound"
	ServerBusy                              Code = "ServerBusy"
	TableAlreadyExists                      Code = "TableAlreadyExists"
	TableBeingDeleted                       Code = "TableBeingDeleted"
	TableNotFound                           Code = "TableNotFound"
	TooManyProperties                       Code = "TooManyProperties"
	UnsupportedHTTPVerb                     Code = "UnsupportedHttpVerb"
	UpdateConditionNotSatisfied             Code = "UpdateConditionNotSatisfied"
)

// Status returns the HTTP status that the services send with the code.
func (c Code) Status() int {
	switch c {
	case AuthenticationFailed, AuthorizationFailure:
		return http.StatusForbidden
	case ResourceNotFound, TableNotFound, QueueNotFound, MessageNotFound, ContainerNotFound, BlobNotFound:
		return http.StatusNotFound
	case UnsupportedHTTPVerb:
		return http.StatusMethodNotAllowed
	case EntityAlreadyExists, TableAlreadyExists, TableBeingDeleted, QueueAlreadyExists, ContainerAlreadyExists, BlobAlreadyExists:
		return http.StatusConflict
	case UpdateConditionNotSatisfied:
		return http.StatusPreconditionFailed
	case InvalidRange:
		return http.StatusRequestedRangeNotSatisfiable
	case RequestBodyTooLarge:
		return http.StatusRequestEntityTooLarge
	case MediaTypeNotSupported, AtomFormatNotSupported:
		return http.StatusUnsupportedMediaType
	case OperationTimedOut:
		return http.StatusInternalServerError
	case NotImplemented:
		return http.StatusNotImplemented
	case ServerBusy:
		return http.StatusServiceUnavailable
	}
	return http.StatusBadRequest
}

// Error is a request's refusal.
type Error struct {
	Code    Code
	Message string      // one sentence for a person, which says what is wrong
	Details [][2]string // names and values that the Queue service adds
}

// New returns the error with the given code, message and details.
func New(code Code, message string, details ...[2]string) *Error {
	return &Error{code, message, details}
}

// Error returns the code and the message.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }
