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

// SecretVariable is the variable by which a host that gives its handler a secret does so, and HeaderSecret has the secret
// in every request of that host. The real host gives none.
const (
	SecretVariable = "TABLESWEEP_HOST_SECRET"
	HeaderSecret   = "X-Tablesweep-Host-Secret"
	WorkerVariable = "FUNCTIONS_CUSTOMHANDLER_WORKER_ID" // what the host calls the process
	HeaderWorker   = "X-Tablesweep-Worker"               // has that in the answer to such a host's request for /
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

// document is what the host sends for an invocation: the trigger's data under its binding's name, and metadata.
type document struct {
	Data     map[string]any
	Metadata map[string]any
}

// sys is the metadata about the run itself.
type sys struct {
	MethodName string
	UtcNow     time.Time
	RandGuid   string
}

// Queue returns the document for a message of a function's queue. The real host has fields of the message itself among the metadata, too.
func Queue(function string, m Message) []byte {
	return encode(document{map[string]any{"item": twice(m.Text)}, map[string]any{
		"DequeueCount": strconv.Itoa(m.DequeueCount), "Id": twice(m.ID), "PopReceipt": twice(m.PopReceipt),
		"ExpirationTime": m.Expires, "InsertionTime": m.Inserted, "NextVisibleTime": m.NextVisible, "sys": newSys(function),
	}})
}

// Status is the state of a timer's schedule, as its function gets it.
type Status struct {
	Last    time.Time // the zero time before the first run
	Next    time.Time // as it was before this run
	Updated time.Time `json:"LastUpdated"`
}

// timerInfo is a timer's data.
type timerInfo struct {
	Schedule       struct{ AdjustForDST bool }
	ScheduleStatus Status
	IsPastDue      bool
}

// Timer returns the document for a function's timer that fires.
func Timer(function string, status Status, pastDue bool) []byte {
	info := timerInfo{ScheduleStatus: status, IsPastDue: pastDue}
	info.Schedule.AdjustForDST = true
	return encode(document{map[string]any{"timer": info}, map[string]any{"sys": newSys(function)}})
}

func newSys(function string) sys {
	return sys{MethodName: function, UtcNow: time.Now().UTC(), RandGuid: uuid.NewString()}
}

// twice returns a string as the host has it in a document: as JSON, which becomes a string of the document.
func twice(s string) string { return string(encode(s)) }

// encode returns v as JSON. <, > and & stay as they are.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // only to memory, and v has nothing that JSON lacks
	return bytes.TrimSpace(b.Bytes())
}
