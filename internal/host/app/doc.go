// Package app reads a function app as the Functions host reads it: host.json,
// each FUNCTION/function.json and local.settings.json become an [App].
//
// It knows the parts of these files that the local host plays: queue, timer and
// HTTP triggers, the settings of the queue extension, functionTimeout and the
// custom handler. It refuses, by name, every setting that would change how the app runs and that
// the local host does not play. It starts nothing and opens only these
// files.
//
// (Microsoft Learn: "host.json reference for Azure Functions", "Azure Functions
// custom handlers", "Azure Queue storage trigger", "Timer trigger", "HTTP trigger")
package app

import "time"

// App is a function app.
type App struct {
	// Queues are the settings of the queue extension. They apply to every queue
	// trigger of the app.
	Queues Queues
	// FunctionTimeout ends an invocation, and the handler process with it. 0
	// means never.
	FunctionTimeout time.Duration
	// RoutePrefix stands before every HTTP route, without slashes around it.
	RoutePrefix string
	// Handler is the custom handler.
	Handler Handler
	// Functions are the enabled functions, sorted by name.
	Functions []Function
}

// Queues are the settings extensions.queues of host.json.
type Queues struct {
	BatchSize         int           // messages got at once, 1 to 32
	NewBatchThreshold int           // gets again when no more than this many run
	MaxPolling        time.Duration // longest wait between polls of an empty queue
	Visibility        time.Duration // wait before the retry of a failed message
	MaxDequeue        int           // deliveries before a message goes to the poison queue
	Base64            bool          // messages are base64
}

// Handler is the section customHandler of host.json.
type Handler struct {
	Executable string   // as written, with settings expanded
	Arguments  []string // with settings expanded
	Directory  string   // working directory below the app's root, "" for the root itself
	// Forward and Proxy pass HTTP requests to the handler unchanged, buffered
	// or streamed. Proxy wins. They apply to functions that are [Function.Plain].
	Forward, Proxy bool
	// InitTimeout is how long a handler may take until it answers.
	InitTimeout time.Duration
}

// Function is one function: its folder's name and its one trigger, of which
// exactly one of Queue, Timer and HTTP is set.
type Function struct {
	Name    string
	Binding string // the trigger's name
	Queue   *QueueTrigger
	Timer   *TimerTrigger
	HTTP    *HTTPTrigger
}

// QueueTrigger invokes a function for each message of a queue.
type QueueTrigger struct {
	Queue      string
	Connection string // name or prefix of the settings that hold the connection
}

// TimerTrigger invokes a function by a schedule.
type TimerTrigger struct {
	Schedule     Schedule
	RunOnStartup bool
	UseMonitor   bool // the function gets the last and next time
}

// HTTPTrigger invokes a function for each request that matches its route.
type HTTPTrigger struct {
	Route     Route
	Methods   []string // upper case; none means all
	AuthLevel AuthLevel
	Output    string // name of the http output binding, "" if there is none
}

// AuthLevel is the key that a request must have.
type AuthLevel string

// The levels of authorization. (Microsoft Learn, "Work with access keys in Azure Functions")
const (
	Anonymous     AuthLevel = "anonymous" // none
	FunctionLevel AuthLevel = "function"  // a function key or the master key
	Admin         AuthLevel = "admin"     // the master key
)

// Plain reports whether the function has one HTTP trigger and one HTTP output.
// Only then can it get requests unchanged. (FunctionMetadata.IsHttpInAndOutFunction
// of azure-functions-host)
func (f Function) Plain() bool { return f.HTTP != nil && f.HTTP.Output != "" }
