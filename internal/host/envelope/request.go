package envelope

import (
	"strconv"
	"strings"
	"time"
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

// Invocation has the host's data about one run of a function. Time and RandGUID
// are those of the binding data "sys".
type Invocation struct {
	Function string
	Binding  string // the trigger's name
	Time     time.Time
	RandGUID string
}

// Message is a queue message, with its text decoded.
type Message struct {
	Text         string
	ID           string // "" and PopReceipt "" for a message made by hand
	PopReceipt   string
	DequeueCount int
	Inserted     time.Time
	Expires      time.Time
	NextVisible  time.Time
}

// Queue returns the document for a queue message. If the message is a JSON object, its
// scalars and objects overwrite metadata of the same name.
func Queue(inv Invocation, m Message) []byte {
	var meta object
	meta.set("DequeueCount", quote(strconv.Itoa(m.DequeueCount)))
	meta.set("ExpirationTime", offset(m.Expires))
	if m.ID != "" {
		meta.set("Id", twice(m.ID))
	}
	meta.set("InsertionTime", offset(m.Inserted))
	meta.set("NextVisibleTime", offset(m.NextVisible))
	if m.PopReceipt != "" {
		meta.set("PopReceipt", twice(m.PopReceipt))
	}
	meta.set("sys", inv.sys())
	fields := scalars(m.Text)
	for _, key := range fields.keys {
		// The host keeps the trigger's own value under such a name and leaves it out.
		if !strings.HasSuffix(strings.ToLower(key), "trigger") {
			meta.set(key, fields.values[strings.ToLower(key)])
		}
	}
	return inv.document(twice(m.Text), &meta)
}

// Status is the state of a timer's schedule, as its function gets it.
type Status struct {
	Last    time.Time // the zero time before the first run
	Next    time.Time // as it was before this run
	Updated time.Time
}

// Timer returns the document for a firing timer. interval is set for a fixed interval,
// and not for an NCRONTAB expression. status is nil if the schedule is not monitored.
func Timer(inv Invocation, interval bool, status *Status, pastDue bool) []byte {
	var data, schedule object
	schedule.set("AdjustForDST", strconv.FormatBool(!interval))
	data.set("Schedule", schedule.String())
	data.set("ScheduleStatus", "null")
	if status != nil {
		var s object
		s.set("Last", clock(status.Last))
		s.set("LastUpdated", clock(status.Updated))
		s.set("Next", clock(status.Next))
		data.set("ScheduleStatus", s.String())
	}
	data.set("IsPastDue", strconv.FormatBool(pastDue))
	var meta object
	meta.set("sys", inv.sys())
	return inv.document(data.String(), &meta)
}

// clock writes a DateTime of the host's local time, which is UTC.
func clock(t time.Time) string {
	return quote(t.UTC().Format("2006-01-02T15:04:05.9999999") + "+00:00")
}

// sys is the host's SystemBindingData.
func (inv Invocation) sys() string {
	var o object
	o.set("MethodName", quote(inv.Function))
	o.set("UtcNow", quote(inv.Time.UTC().Format("2006-01-02T15:04:05.9999999Z")))
	o.set("RandGuid", quote(inv.RandGUID))
	return o.String()
}

func (inv Invocation) document(value string, meta *object) []byte {
	var data, doc object
	data.set(inv.Binding, value)
	doc.set("Data", data.String())
	doc.set("Metadata", meta.String())
	return []byte(doc.String())
}
