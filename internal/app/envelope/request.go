package envelope

import (
	"bytes"
	"encoding/json"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// HostVersion is the version in the host's headers.
const HostVersion = "4.0.0.0"

// SecretVariable is the variable in which a host may give its handler a secret. All requests of that host contain the
// secret in HeaderSecret. The real host sets no secret.
const (
	SecretVariable = "TABLESWEEP_HOST_SECRET"
	HeaderSecret   = "X-Tablesweep-Host-Secret"
	WorkerVariable = "FUNCTIONS_CUSTOMHANDLER_WORKER_ID" // its value is the id that the host gives to the handler process
	HeaderWorker   = "X-Tablesweep-Worker"               // contains the process's id, in the handler's answer to a request for the path "/"
)

// Headers of every invocation. (HttpWorkerConstants of azure-functions-host)
const (
	HeaderInvocation  = "X-Azure-Functions-InvocationId"
	HeaderHostVersion = "X-Azure-Functions-HostVersion"
	UserAgent         = "Azure-Functions-Host/" + HostVersion
	ContentType       = "application/json; charset=utf-8"
)

// Message is a queue message, with its text decoded.
type Message struct {
	Text         string
	ID           string
	PopReceipt   string
	DequeueCount int
	Inserted     time.Time
	Expires      time.Time
	NextVisible  time.Time
}

// document is the body of the host's request for an invocation: the trigger's data under the name of the trigger's binding,
// and metadata.
type document struct {
	Data     map[string]any
	Metadata map[string]any
}

// sys is the metadata about the invocation itself.
type sys struct {
	MethodName string
	UtcNow     time.Time
	RandGuid   string
}

// Queue returns the body of the request by which the host calls a function for a queue message. The real host also copies
// the fields of the message's JSON to the metadata.
func Queue(function string, m Message) []byte {
	return encode(document{map[string]any{"item": encodeTwice(m.Text)}, map[string]any{
		"DequeueCount": strconv.Itoa(m.DequeueCount), "Id": encodeTwice(m.ID), "PopReceipt": encodeTwice(m.PopReceipt),
		"ExpirationTime": m.Expires, "InsertionTime": m.Inserted, "NextVisibleTime": m.NextVisible, "sys": newSys(function),
	}})
}

// Status is the state of a timer's schedule, as the timer's function receives it.
type Status struct {
	Last    time.Time // time of the last run; zero before the first run
	Next    time.Time // time of the next run, computed before this run
	Updated time.Time `json:"LastUpdated"`
}

type timerInfo struct {
	Schedule       struct{ AdjustForDST bool }
	ScheduleStatus Status
	IsPastDue      bool
}

// Timer returns the body of the request by which the host calls a function when the function's timer fires.
func Timer(function string, status Status, pastDue bool) []byte {
	info := timerInfo{ScheduleStatus: status, IsPastDue: pastDue}
	info.Schedule.AdjustForDST = true
	return encode(document{map[string]any{"timer": info}, map[string]any{"sys": newSys(function)}})
}

func newSys(function string) sys {
	return sys{MethodName: function, UtcNow: time.Now().UTC(), RandGuid: uuid.NewString()}
}

// encodeTwice returns s as JSON, which [encode] encodes a second time as a string in a document. The real host also encodes
// such strings twice.
func encodeTwice(s string) string { return string(encode(s)) }

// encode returns v as JSON, with <, > and & unescaped.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // never fails: v has a JSON form
	return bytes.TrimSpace(b.Bytes())
}
